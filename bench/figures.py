"""Measures every promise and writes docs/figures.md: `python -m bench.figures` (`--quick` for a try).

Each figure comes with the command that measures it alone and the number of samples; what failed or was left out is
said as well. Each part is kept in .build/figures when it is measured, so that one can be measured anew (`--only chaos`)
and a run that breaks off loses nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structlog

from bench import chaos, machine, mutation, storm
from bench.paths import BUILD, ROOT
from bench.progress import say
from bench.stats import percentile
from bench.victim import Victim
from tests.conftest import owner_of
from tests.support import stress
from tests.support.api import Api, eventually, until
from tests.support.engine import sandboxes_of
from tests.support.installation import Installation
from tests.support.metrics import gauges
from tests.support.programs import held
from tests.support.two_roles import alternate, bleed_among, two_roles

FIGURES = ROOT / "docs" / "figures.md"
KEPT = BUILD / "figures"
JUNIT = BUILD / "escape.xml"
DEADLINE_SECONDS = 1.0
WARM_OF_EACH_LANGUAGE = 2
STRESS_ROUNDS = 10
STRESS_SECONDS = 80.0  # longer than a round; what is left of it is cancelled


@dataclass(frozen=True, slots=True)
class Plan:
    mutants: int | None
    kills: int
    deadlines: int
    cancellations: int
    at_once: int
    crowd: int
    late: int
    executions: int
    warm: int
    alternating: int
    beside_stress: int


FULL = Plan(None, 200, 100, 100, 1000, 200, 40, 2000, 300, 1000, 300)
QUICK = Plan(10, 3, 5, 5, 50, 30, 6, 40, 20, 40, 20)


@dataclass(frozen=True, slots=True)
class Figure:
    promise: str
    target: str
    measured: str
    n: int
    met: bool
    command: str


@dataclass
class Figures:
    """What one part measured."""

    quick: bool
    when: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M"))
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        say(f"{figure.promise}: {figure.measured} ({'met' if figure.met else 'NOT MET'})")
        self.figures.append(figure)


def _alone(part: str) -> str:
    """The command that measures the part again."""
    return f".venv/bin/python -m bench.figures --only {part}"


# --- attacks ---


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
    report = await mutation.mutation(mutation.chosen_mutants(plan.mutants, seed=0))
    survived = report.named(mutation.Fate.SURVIVED)
    figures.notes += [f"Survived mutant: {name}." for name in survived]
    for fate in (mutation.Fate.STILLBORN, mutation.Fate.EQUIVALENT):
        if names := report.named(fate):
            figures.notes.append(f"Mutants that are {fate} on this machine and not counted: {', '.join(names)}.")
    measured = f"{report.score:.1%} ({len(survived)} survived)"
    figures.add(
        Figure("mutation score of the lockdown", "100 %", measured, report.total, not survived, "make mutation")
    )


# --- crashes and load ---


async def kills(figures: Figures, plan: Plan) -> None:
    report = await chaos.chaos(plan.kills, seed=int(time.time()))
    command = f"make chaos ROUNDS={plan.kills}"
    figures.add(Figure("orphans after kill -9", "0", str(report.orphans), report.rounds, not report.orphans, command))
    lies = len(report.untruthful)
    figures.add(
        Figure("untruthful journal records after kill -9", "0", str(lies), report.executions, not lies, command)
    )
    last = max(report.quiet_seconds)
    figures.add(
        Figure("last sandbox gone after kill -9, at most", "15 s", f"{last:.1f} s", report.rounds, last < 15, command)
    )
    figures.notes += [f"Journal: {lie}." for lie in report.untruthful]


async def crowd(figures: Figures, plan: Plan) -> None:
    report = await storm.storm(plan.at_once)
    command = f".venv/bin/python -m bench.storm --requests {plan.at_once}"
    bad = report.lost + report.duplicated + report.wrong
    promise = f"replies lost, duplicated or wrong at {plan.at_once} at once"
    figures.add(Figure(promise, "0", str(bad), report.requests, report.passed, command))
    grown = f"{report.growth_mb:.0f} MB"
    figures.add(
        Figure("daemon memory growth meanwhile", "100 MB", grown, report.requests, report.growth_mb < 100, command)
    )
    fair = await storm.fairness(plan.crowd, plan.late)
    promise = f"share of a caller that comes after {plan.crowd} requests of another"
    figures.add(Figure(promise, "0.5 ± 0.1", f"{fair.share:.2f}", plan.late, fair.fair, command))


# --- times ---


async def deadlines(figures: Figures, plan: Plan) -> None:
    async def overrun(api: Api, _: Installation) -> float:
        result = await api.python("while True: pass", DEADLINE_SECONDS)
        if result["outcome"] != "timed_out":
            raise RuntimeError(f"a busy loop ended as {result['outcome']}")
        return float(result["metrics"]["runMs"]) - 1000 * DEADLINE_SECONDS

    samples = await _samples(overrun, plan.deadlines, warm_floor=1)
    _add_time(figures, "deadline overrun of a busy loop", samples, 250)


async def cancellations(figures: Figures, plan: Plan) -> None:
    async def until_gone(api: Api, place: Installation) -> float:
        async with held(api) as program:
            (sandbox,) = [each for each in sandboxes_of(owner_of(place)) if _belongs(each, program.execution_id)]
            began = time.perf_counter()
            await api.delete(f"/executions/{program.execution_id}")
            await until(lambda: sandbox.id not in {each.id for each in sandboxes_of(owner_of(place))}, seconds=30)
            return 1000 * (time.perf_counter() - began)

    samples = await _samples(until_gone, plan.cancellations, warm_floor=0, warm_ceiling=0)
    _add_time(figures, "cancel to container gone", samples, 2000)


def _belongs(container: object, execution_id: str) -> bool:
    labels: dict[str, str] = getattr(container, "labels", {})
    return labels.get("mcp-code-executor.execution") == execution_id


async def warm_starts(figures: Figures, plan: Plan) -> None:
    cold = 0

    async def reply(api: Api, _: Installation) -> float:
        nonlocal cold
        milliseconds, result = await _reply(api)
        cold += not result["warm"]
        return milliseconds

    samples = await _samples(reply, plan.warm, **_of_each_language())
    _add_time(figures, "warm start, full HTTP reply with all hardening on", samples, 50)
    figures.notes += (
        [f"{cold} starts were cold where a warm one was expected; they are counted all the same."] if cold else []
    )


async def beside_stress(figures: Figures, plan: Plan) -> None:
    """Alone and beside another caller's stress-ng in turns, so that both meet the machine in the same state."""
    await asyncio.to_thread(stress.ensure_image)
    alone: list[float] = []
    beside: list[float] = []
    share = plan.beside_stress // STRESS_ROUNDS
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory), **_of_each_language(), runner_image=stress.IMAGE) as victim:
            await victim.start()
            async with victim.caller("admin") as api, victim.caller("developer") as other:
                await _replies(api, 1)  # the first one warms up
                for _ in range(STRESS_ROUNDS):
                    alone += await _replies(api, share)
                    async with stress.stressed(other, stress.STRESSORS, STRESS_SECONDS) as load:
                        beside += await _replies(api, share)
                        if load.over:
                            raise RuntimeError("stress-ng was over before the last reply")
    _add_ratio(figures, alone, beside, 0.5, at_most=2)
    _add_ratio(figures, alone, beside, 0.99, at_most=3)


async def _replies(api: Api, count: int) -> list[float]:
    return [(await _reply(api))[0] for _ in range(count)]


async def _reply(api: Api) -> tuple[float, Any]:
    """Its milliseconds, when the pool was full, and what it says."""
    await until_warm(api)
    began = time.perf_counter()
    result = await api.python("print(1)")
    milliseconds = 1000 * (time.perf_counter() - began)
    if result["output"] != "1\n":
        raise RuntimeError(f"an ordinary program ended as {result['outcome']}")
    return milliseconds, result


def _add_ratio(figures: Figures, alone: list[float], beside: list[float], share: float, at_most: float) -> None:
    before, after = percentile(alone, share), percentile(beside, share)
    figures.add(
        Figure(
            f"reply beside another caller's stress-ng against alone, p{100 * share:.0f}",
            f"{at_most:.0f} x",
            f"{after / before:.1f} x ({after:.1f} ms against {before:.1f} ms)",
            len(beside),
            after <= at_most * before,
            _alone("stress"),
        )
    )


async def until_warm(api: Api) -> None:
    async def warm() -> bool:
        return (await gauges(api))["code_executor_warm"] >= 2 * WARM_OF_EACH_LANGUAGE

    await eventually(warm, seconds=30)


def _of_each_language() -> dict[str, Any]:
    return {"warm_floor": WARM_OF_EACH_LANGUAGE, "warm_ceiling": WARM_OF_EACH_LANGUAGE}


async def _samples(
    measure: Callable[[Api, Installation], Awaitable[float]], count: int, **settings: int
) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory), **settings) as victim:
            await victim.start()
            async with victim.caller("admin") as api:
                await measure(api, victim.installation)  # the first one warms up
                return [await measure(api, victim.installation) for _ in range(count)]


def _add_time(figures: Figures, promise: str, samples: list[float], limit_ms: float) -> None:
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    command = _alone("times")
    figures.add(
        Figure(
            f"{promise}, p99",
            f"{limit_ms:.0f} ms",
            f"{p99:.1f} ms (p50 {p50:.1f} ms)",
            len(samples),
            p99 <= limit_ms,
            command,
        )
    )


# --- staying as it is ---


async def soak(figures: Figures, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory)) as victim:
            await victim.start()
            async with victim.caller("admin") as api:
                await _execute(api, max(10, plan.executions // 20))  # what is loaded and cached once is no growth
                before = machine.resident_mb(victim.pid)
                await _execute(api, plan.executions)
                after = machine.resident_mb(victim.pid)
    n, command = plan.executions, _alone("soak")
    grown = after - before
    figures.add(Figure(f"daemon memory after {n} executions", "150 MB", f"{after:.1f} MB", n, after <= 150, command))
    figures.add(Figure("growth of it meanwhile", "20 MB", f"{grown:.1f} MB", n, grown <= 20, command))


async def _execute(api: Api, count: int) -> None:
    turns = asyncio.Semaphore(4)

    async def one(number: int) -> None:
        async with turns:
            result = await api.python(f"print({number})")
        if result["output"] != f"{number}\n":
            raise RuntimeError(f"execution {number} answered {result['output']!r}")

    await asyncio.gather(*(one(number) for number in range(count)))


async def bleed(figures: Figures, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with two_roles(Path(directory)) as callers:
            answers = await alternate(callers, plan.alternating)
    found = bleed_among(answers)
    figures.notes += [f"Bleed: {each}." for each in found]
    measured = f"{len(found)} cases" if found else "none"
    command = _alone("bleed")
    figures.add(
        Figure("bleed between alternating calls of two roles", "none", measured, len(answers), not found, command)
    )


# --- all of them ---

Measure = Callable[[Figures, Plan], Awaitable[None]]
PARTS: dict[str, tuple[Measure, ...]] = {
    "attacks": (attacks,),
    "mutation": (mutants,),
    "chaos": (kills,),
    "load": (crowd,),
    "times": (deadlines, cancellations, warm_starts),
    "stress": (beside_stress,),
    "soak": (soak,),
    "bleed": (bleed,),
}


async def measure(part: str, plan: Plan, *, quick: bool) -> Figures:
    figures = Figures(quick)
    for one in PARTS[part]:
        try:
            await one(figures, plan)
        except Exception as error:
            figures.notes.append(f"Not measured: {one.__name__} ({type(error).__name__}: {str(error)[:200]}).")
            say(figures.notes[-1])
    return figures


def keep(part: str, figures: Figures) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    _kept_file(part, quick=figures.quick).write_text(json.dumps(asdict(figures), indent=2))


def kept(*, quick: bool) -> dict[str, Figures]:
    """What was measured last of each part, in the order of the page."""
    files = {part: _kept_file(part, quick=quick) for part in PARTS}
    return {part: _restored(json.loads(file.read_text())) for part, file in files.items() if file.exists()}


def _kept_file(part: str, *, quick: bool) -> Path:
    return KEPT / f"{part}{'-quick' if quick else ''}.json"


def _restored(saved: dict[str, Any]) -> Figures:
    return Figures(**{**saved, "figures": [Figure(**figure) for figure in saved["figures"]]})


INTRODUCTION = (
    "Written by `make figures`; most of these are also held by tests, at a smaller n. "
    "What failed or was left out is below."
)


def rendered(parts: Mapping[str, Figures], *, quick: bool) -> str:
    missing = [part for part in PARTS if part not in parts]
    notes = [note for part in parts.values() for note in part.notes]
    notes += [f"Not measured yet: {', '.join(missing)}."] if missing else []
    return "\n".join(
        [
            "# Figures",
            "",
            INTRODUCTION,
            "",
            *_circumstances(quick),
            "",
            "| Promise | Target | Measured | n | Met | Command | When |",
            "|---|---|---|---|---|---|---|",
            *(_row(figure, part.when) for part in parts.values() for figure in part.figures),
            "",
            "## Failures, skips and what is not counted",
            "",
            *([f"- {note}" for note in notes] or ["- None."]),
            "",
        ]
    )


def _circumstances(quick: bool) -> list[str]:
    here = machine.describe()
    size = ["- A quick run, with small numbers"] if quick else []
    return [
        *size,
        f"- Machine: {here.processor}, {here.cores} cores, {here.memory_gb:.0f} GB, {here.system}, Linux {here.kernel}",
        f"- Engine: {here.engine}, runtime runc; Node.js {here.runner_node} in the runner image",
    ]


def _row(figure: Figure, when: str) -> str:
    met = "yes" if figure.met else "**no**"
    cells = (figure.promise, figure.target, figure.measured, str(figure.n), met, f"`{figure.command}`", when)
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--output", type=Path, help="the page; without it docs/figures.md, or for a quick run .build")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    chosen = options.only.split(",")
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    plan = QUICK if options.quick else FULL
    for part in chosen:
        keep(part, asyncio.run(measure(part, plan, quick=options.quick)))
    parts = kept(quick=options.quick)
    output = options.output or (BUILD / "figures.md" if options.quick else FIGURES)
    output.write_text(rendered(parts, quick=options.quick))
    return 0 if all(figure.met for part in parts.values() for figure in part.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
