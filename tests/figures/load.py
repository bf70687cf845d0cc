"""Crashes and crowds."""

from __future__ import annotations

import time

from tests.chaos.rounds import run_rounds
from tests.figures.figure import Figure, Figures, Plan
from tests.load.fairness import fairness
from tests.load.storm import storm


async def kills(figures: Figures, plan: Plan) -> None:
    report = await run_rounds(plan.kills, seed=int(time.time()))
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
    report = await storm(plan.at_once)
    command = f".venv/bin/python -m tests.load --requests {plan.at_once}"
    bad = report.lost + report.duplicated + report.wrong
    promise = f"replies lost, duplicated or wrong at {plan.at_once} at once"
    figures.add(Figure(promise, "0", str(bad), report.requests, report.passed, command))
    grown = f"{report.growth_mb:.0f} MB"
    figures.add(
        Figure("daemon memory growth meanwhile", "100 MB", grown, report.requests, report.growth_mb < 100, command)
    )
    fair = await fairness(plan.crowd, plan.late)
    promise = f"share of a caller that comes after {plan.crowd} requests of another"
    figures.add(Figure(promise, "0.5 ± 0.1", f"{fair.share:.2f}", plan.late, fair.fair, command))
