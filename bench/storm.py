"""Many callers at once, and two that compete: `python -m bench.storm --requests 1000`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.machine import resident_mb
from bench.progress import say
from bench.victim import Victim
from tests.support.api import Api, eventually
from tests.support.metrics import gauges

ROLES = ("admin", "developer")
TIMEOUT_SECONDS = 1800.0
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


@dataclass(frozen=True, slots=True)
class FairnessReport:
    crowd: int
    late: int
    finished_before_the_last_late_one: int

    @property
    def share(self) -> float:
        """Of the late caller, while it had something to do; 0.5 is its due, first come first served gives far less."""
        return self.late / (self.late + self.finished_before_the_last_late_one)

    @property
    def fair(self) -> bool:
        return abs(self.share - 0.5) <= 0.1


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
    async with _crowd(victim) as callers:
        replies = await asyncio.gather(
            *(_ask(callers[number % len(callers)], number) for number in range(report.requests)), return_exceptions=True
        )
    report.seconds = time.monotonic() - began
    _judge(replies, report)


@asynccontextmanager
async def _crowd(victim: Victim) -> AsyncIterator[list[Api]]:
    """One session for each role, with as many connections as there are requests."""
    sessions = [_session(victim.installation.keys[role]) for role in ROLES]
    try:
        yield [Api(session, victim.url) for session in sessions]
    finally:
        for session in sessions:
            await session.close()


def _session(key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
    )


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


async def fairness(crowd: int, late: int) -> FairnessReport:
    """One caller sends a crowd of requests; another comes after it with a few. What ran already is not counted."""
    order: list[str] = []
    waiting = {"max_waiting": crowd + late + 10, "max_waiting_per_caller": crowd + late + 10}
    with tempfile.TemporaryDirectory(prefix="fairness-") as directory:
        async with Victim.in_directory(Path(directory), **waiting) as victim:
            await victim.start()
            async with _crowd(victim) as (greedy, modest):
                first = [asyncio.create_task(_noted(greedy, "crowd", order)) for _ in range(crowd)]
                await eventually(lambda: _all_arrived(greedy, crowd), seconds=60)
                already = len(order) + int((await gauges(greedy))["code_executor_running"])
                await asyncio.gather(*(_noted(modest, "late", order) for _ in range(late)))
                between = max(0, order.count("crowd") - already)
                await asyncio.gather(*first)
    return FairnessReport(crowd, late, between)


async def _all_arrived(api: Api, count: int) -> bool:
    _, listing = await api.get(f"/executions?limit={min(500, count)}")
    return len(listing["executions"]) >= min(500, count) or (await gauges(api))["code_executor_waiting"] == 0


async def _noted(api: Api, name: str, order: list[str]) -> None:
    status, _ = await api.post("/execute", {"code": "print(1)", "language": "python"})
    assert status == 200, status
    order.append(name)


def summary(report: StormReport) -> str:
    return (
        f"{report.requests} at once in {report.seconds:.0f} s: {report.lost} lost, {report.duplicated} duplicated, "
        f"{report.wrong} wrong, statuses {json.dumps(report.statuses)}; "
        f"daemon {report.idle_mb:.0f} MB idle, {report.peak_mb:.0f} MB at most"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.storm", description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    options = parser.parse_args()
    report = asyncio.run(storm(options.requests))
    say(summary(report))
    competition = asyncio.run(fairness(options.requests // 5, options.requests // 25))
    say(f"a caller that came late had a share of {competition.share:.2f}")
    return 0 if report.passed and competition.fair else 1


if __name__ == "__main__":
    sys.exit(main())
