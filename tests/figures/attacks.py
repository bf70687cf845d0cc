"""Whether the attacks fail, and whether the tests notice a weaker lockdown."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from bench.paths import BUILD, ROOT
from tests.figures.figure import Figure, Figures, Plan
from tests.mutation.verdicts import Fate, chosen_mutants, judge

JUNIT = BUILD / "escape.xml"


async def attacks(figures: Figures, plan: Plan) -> None:
    command = [sys.executable, "-m", "pytest", "tests/escape", "-q", f"--junitxml={JUNIT}"]
    JUNIT.parent.mkdir(exist_ok=True)
    if figures.quick:
        command += ["-k", "filter"]
        figures.notes.append("Quick run: of the escape suite, only the tests of the system call filter.")
    await asyncio.to_thread(subprocess.run, command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    cases = list(ElementTree.parse(JUNIT).iter("testcase"))
    failed = [_named(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [_named(case) for case in cases if case.find("skipped") is not None]
    passed = len(cases) - len(failed) - len(skipped)
    figures.notes += [f"Failed: {name}." for name in failed] + [f"Skipped: {name}." for name in skipped]
    measured = f"{passed} of {len(cases)}"
    command_alone = ".venv/bin/pytest tests/escape"
    figures.add(Figure("attack cases passed (runc)", "all", measured, len(cases), not failed, command_alone))


def _named(case: ElementTree.Element) -> str:
    return f"`{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}`"


async def mutants(figures: Figures, plan: Plan) -> None:
    report = await judge(chosen_mutants(plan.mutants, seed=0))
    survived = report.named(Fate.SURVIVED)
    figures.notes += [f"Survived mutant: {name}." for name in survived]
    for fate in (Fate.STILLBORN, Fate.EQUIVALENT):
        if names := report.named(fate):
            figures.notes.append(f"Mutants that are {fate} on this machine and not counted: {', '.join(names)}.")
    measured = f"{report.score:.1%} ({len(survived)} survived)"
    figures.add(
        Figure("mutation score of the lockdown", "100 %", measured, report.total, not survived, "make mutation")
    )
