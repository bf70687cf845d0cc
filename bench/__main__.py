"""Measures the product beside its alternatives: python -m bench [--quick] [--only latency,load]"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench import machine, results
from bench.burst import measure_burst
from bench.charts import draw
from bench.check import measure_check
from bench.crowd import measure_crowd
from bench.engine import Engine
from bench.gateway import measure_gateway
from bench.latency import measure_latency, measure_tools
from bench.lists import measure_lists
from bench.load import measure_load
from bench.memory import measure_idle_memory, measure_soak
from bench.paths import QUICK_RESULTS, RESULTS
from bench.plan import FULL, QUICK, Plan
from bench.profile import measure_profile
from bench.progress import elapsed_seconds, say
from bench.results import Results
from bench.speed_page import NothingToShow, write_speed_page
from bench.tables import report, targets_table
from bench.targets import judged
from bench.workspaces import measure_workspaces

Section = Callable[[Engine, Plan], Any]
QUIET_SECONDS = 1.0  # nothing of ours runs between the sections: what the CPUs do then, others do
SECTIONS: dict[str, Section] = {
    "latency": measure_latency,
    "tools": measure_tools,
    "gateway": measure_gateway,
    "check": measure_check,
    "workspaces": measure_workspaces,
    "lists": measure_lists,
    "burst": measure_burst,
    "load": measure_load,
    "crowd": measure_crowd,
    "memory": measure_idle_memory,
    "soak": measure_soak,
    "profile": measure_profile,
}


def main() -> int:
    options = _options()
    if options.write_docs:
        return _write_docs()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is left behind in order
    plan = _plan(options)
    file = _file(options)
    try:
        failed = _measure(plan, _chosen(options.only), file)
    except KeyboardInterrupt:
        say("interrupted; everything that was started is removed")
        return 130
    say(f"done; {file.with_suffix('.md')}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, a few minutes; figures not to be quoted")
    parser.add_argument("--only", default=",".join(SECTIONS), help="these sections, the others stay as they were")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison")
    parser.add_argument("--soak", type=int, metavar="N", help="exactly N executions, however long they take")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--write-docs", action="store_true", help="put the newest result into docs/speed.md and end")
    return parser.parse_args()


def _chosen(only: str) -> list[str]:
    names = only.split(",")
    unknown = set(names) - SECTIONS.keys()
    if unknown:
        sys.exit(f"There is no section {', '.join(sorted(unknown))}; there is {', '.join(SECTIONS)}.")
    return [name for name in SECTIONS if name in names]


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    if options.soak:
        plan = replace(plan, soak_executions=options.soak, soak_seconds=None)
    return plan


def _file(options: argparse.Namespace) -> Path:
    directory: Path = options.out or (QUICK_RESULTS if options.quick else RESULTS)
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{machine.today()}{'-quick' if options.quick else ''}.json"


def _measure(plan: Plan, names: list[str], file: Path) -> list[str]:
    failed: list[str] = []
    with Engine().clean() as engine:
        found = _before(plan, file)
        for name in names:
            before = machine.background_cores(QUIET_SECONDS)
            say(f"{name} …")
            try:
                measured = SECTIONS[name](engine, plan)
            except Exception:
                traceback.print_exc()
                failed.append(name)
                continue
            after = machine.background_cores(QUIET_SECONDS)
            found = _with(found, name, measured, (before + after) / 2)
            results.write(found, file)
    _write_report(found, file)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return failed


def _before(plan: Plan, file: Path) -> Results:
    """The day's earlier results, if there are any: --only replaces some of them."""
    described = machine.describe()
    if not file.exists():
        return Results(machine=described, quick=plan.quick, seconds=0)
    try:
        return results.read(file).model_copy(update={"machine": described})
    except ValidationError:
        sys.exit(f"{file} was written by another version of the benchmark; move it away or name another --out.")


def _with(found: Results, name: str, measured: Any, background_cores: float) -> Results:
    background = {**found.background_cores, name: background_cores}
    updated = found.model_copy(update={name: measured, "background_cores": background, "seconds": elapsed_seconds()})
    return updated.model_copy(update={"targets": judged(updated)})


def _write_report(found: Results, file: Path) -> None:
    file.with_suffix(".md").write_text(report(found))
    draw(found, file.parent, file.stem)
    print(targets_table(found.targets))


def _write_docs() -> int:
    try:
        file = write_speed_page()
    except NothingToShow as error:
        print(error, file=sys.stderr)
        return 1
    print(f"docs/speed.md shows {file.name}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
