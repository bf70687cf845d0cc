"""All requests at once: none may be lost, answered twice or mixed up, and the daemon may not grow much."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import resident_mb
from tests.load.callers import both_roles
from tests.support.api import Api
from tests.support.victim import Victim

LOOK_SECONDS = 0.05


@dataclass
class StormReport:
    requests: int
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    wrong: int = 0
    duplicated: int = 0
    idle_mb: float = 0.0
    peak_mb: float = 0.0

    @property
    def growth_mb(self) -> float:
        return self.peak_mb - self.idle_mb

    @property
    def passed(self) -> bool:
        return not (self.lost or self.wrong or self.duplicated) and self.statuses == {200: self.requests}


async def storm(requests: int) -> StormReport:
    report = StormReport(requests)
    waiting = {"max_waiting": min(10_000, requests + 100), "max_waiting_per_caller": min(10_000, requests + 100)}
    with tempfile.TemporaryDirectory(prefix="storm-") as directory:
        async with Victim.in_directory(Path(directory), **waiting) as victim:
            await victim.start()
            report.idle_mb = resident_mb(victim.pid)
            watching = asyncio.create_task(_watch_memory(victim, report))
            await _all_at_once(victim, report)
            watching.cancel()
    return report


async def _watch_memory(victim: Victim, report: StormReport) -> None:
    while True:
        report.peak_mb = max(report.peak_mb, resident_mb(victim.pid))
        await asyncio.sleep(LOOK_SECONDS)


async def _all_at_once(victim: Victim, report: StormReport) -> None:
    began = time.monotonic()
    async with both_roles(victim) as callers:
        replies = await asyncio.gather(
            *(_ask(callers[number % len(callers)], number) for number in range(report.requests)), return_exceptions=True
        )
    report.seconds = time.monotonic() - began
    _judge(replies, report)


async def _ask(api: Api, number: int) -> tuple[int, int, Any]:
    status, body = await api.post("/execute", {"code": f"print('reply', {number})", "language": "python"})
    return number, status, body


def _judge(replies: list[Any], report: StormReport) -> None:
    seen: Counter[str] = Counter()
    for reply in replies:
        if isinstance(reply, BaseException):
            report.lost += 1
            continue
        number, status, body = reply
        report.statuses[status] += 1
        seen[str(body.get("executionId"))] += 1
        report.wrong += status == 200 and body["output"] != f"reply {number}\n"
    report.duplicated = sum(count - 1 for count in seen.values())


def summary(report: StormReport) -> str:
    return (
        f"{report.requests} at once in {report.seconds:.0f} s: {report.lost} lost, {report.duplicated} duplicated, "
        f"{report.wrong} wrong, statuses {json.dumps(report.statuses)}; "
        f"daemon {report.idle_mb:.0f} MB idle, {report.peak_mb:.0f} MB at most"
    )
