"""The rounds: load, a kill, a look at what is left, a new start, and another look."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.progress import say
from bench.stats import percentile
from bench.testbed.engine import containers_of, containers_of_epochs, epochs_of
from tests.chaos.callers import Callers
from tests.chaos.truth import untruthful
from tests.support.api import Api, eventually, until
from tests.support.metrics import gauges
from tests.support.upstream_server import ScriptedProxy, Slow, serving, tool
from tests.support.victim import Victim

LONGEST_BEFORE_THE_KILL_SECONDS = 3.0
# In a warm round programs come far before the kill; in the others it meets sandboxes that are being started.
SHARE_OF_WARM_ROUNDS = 0.5
WARM_SANDBOXES = 4  # of both roles in both languages
QUIET_WITHIN_SECONDS = 30.0
CLEAN_WITHIN_SECONDS = 30.0


@dataclass
class ChaosReport:
    rounds: int = 0
    executions: int = 0
    interrupted: int = 0
    calls: int = 0
    calls_in_flight: int = 0
    still_running: list[str] = field(default_factory=list)
    still_there: list[str] = field(default_factory=list)
    untruthful: list[str] = field(default_factory=list)
    quiet_seconds: list[float] = field(default_factory=list)
    clean_seconds: list[float] = field(default_factory=list)

    @property
    def orphans(self) -> int:
        return len(self.still_running) + len(self.still_there)

    @property
    def passed(self) -> bool:
        return not (self.orphans or self.untruthful)


async def run_rounds(rounds: int, seed: int = 0) -> ChaosReport:
    report = ChaosReport()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        async with _victim_with_tools(Path(directory)) as victim:
            await victim.start()
            for number in range(rounds):
                await _round(victim, random.Random(f"{seed}/{number}"), report)
                report.rounds += 1
                say(f"  kill {number + 1}: {_newest(report)}")
    return report


@asynccontextmanager
async def _victim_with_tools(directory: Path) -> AsyncIterator[Victim]:
    """One tool answers at once, the other never does."""
    proxy = ScriptedProxy("scripted")
    proxy.tools["scripted"].append(tool("slow"))
    proxy.behaviours["slow"] = Slow()
    file = directory / "servers.json"
    async with serving(proxy.app()) as url:
        file.write_text(json.dumps({"mcpServers": {"scripted": {"url": f"{url}/scripted/mcp"}}}))
        async with Victim.in_directory(directory, max_running=4, max_running_per_caller=4, servers_file=file) as victim:
            yield victim


def _newest(report: ChaosReport) -> str:
    quiet, clean = report.quiet_seconds[-1], report.clean_seconds[-1]
    return f"quiet after {quiet:.1f} s, clean after {clean:.1f} s, {report.orphans} orphans so far"


async def _round(victim: Victim, draw: random.Random, report: ChaosReport) -> None:
    async with victim.caller("admin") as api:
        await eventually(lambda: _tools_are_listed(api), seconds=30)
        if draw.random() < SHARE_OF_WARM_ROUNDS:
            await eventually(lambda: _is_warm(api), seconds=30)
        callers = Callers(api, draw)
        await asyncio.sleep(draw.uniform(0, LONGEST_BEFORE_THE_KILL_SECONDS))
        epochs = epochs_of(victim.owner)
        await asyncio.to_thread(victim.kill)
        killed_at = time.time()
        report.quiet_seconds.append(await _seconds_until(lambda: not _running(victim.owner), QUIET_WITHIN_SECONDS))
        report.still_running += _running(victim.owner)
        sent = await callers.all_sent()
    await victim.start()
    async with victim.caller("admin") as api:
        gone = await _seconds_until(lambda: not containers_of_epochs(victim.owner, epochs), CLEAN_WITHIN_SECONDS)
        report.clean_seconds.append(gone)
        report.still_there += [str(each.id) for each in containers_of_epochs(victim.owner, epochs)]
        report.untruthful += await untruthful(api, sent, killed_at)
        _count_interrupted(report, [(await api.get(f"/executions/{each.execution_id}"))[1] for each in sent])
    report.executions += len(sent)


async def _tools_are_listed(api: Api) -> bool:
    return bool((await api.get("/health"))[1]["toolsByServer"].get("scripted"))


async def _is_warm(api: Api) -> bool:
    return (await gauges(api))["code_executor_warm"] >= WARM_SANDBOXES


async def _seconds_until(condition: Callable[[], bool], limit: float) -> float:
    began = time.monotonic()
    with suppress(TimeoutError):
        await until(condition, seconds=limit)
    return time.monotonic() - began


def _running(owner: str) -> list[str]:
    return [str(container.id) for container in containers_of(owner) if container.status in ("running", "paused")]


def _count_interrupted(report: ChaosReport, records: list[Any]) -> None:
    interrupted = [record for record in records if record["state"] == "interrupted"]
    outcomes = [call["outcome"] for record in interrupted for call in record["toolCalls"]]
    report.interrupted += len(interrupted)
    report.calls += len(outcomes)
    report.calls_in_flight += outcomes.count("in_flight")


def summary(report: ChaosReport) -> str:
    return (
        f"{report.rounds} kills, {report.executions} executions, {report.interrupted} interrupted "
        f"with {report.calls} tool calls, {report.calls_in_flight} of them in flight: "
        f"{report.orphans} orphans, {len(report.untruthful)} untruthful records; quiet after p50 "
        f"{percentile(report.quiet_seconds, 0.5):.1f} s, at most {max(report.quiet_seconds):.1f} s; "
        f"clean after a restart within {max(report.clean_seconds):.1f} s"
    )
