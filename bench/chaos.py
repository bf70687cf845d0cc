"""Kills the daemon at random moments under load and looks at what is left: `python -m bench.chaos --rounds 200`.

After each kill no sandbox may run 15 s later, though the daemon stays away; after the next start nothing of the killed
one may be left 10 s later, in any state, and the journal must tell what became of every execution and of every tool
call that a caller heard of.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from bench.progress import say
from bench.stats import percentile
from bench.victim import Victim
from tests.support.api import Api, eventually, until
from tests.support.engine import LABEL, containers_of
from tests.support.metrics import gauges
from tests.support.upstream_server import ScriptedProxy, Slow, serving, tool

CALLERS = 6
LONGEST_BEFORE_THE_KILL_SECONDS = 3.0
# In a warm round programs come far before the kill; in the others it meets sandboxes that are being started.
SHARE_OF_WARM_ROUNDS = 0.5
WARM_SANDBOXES = 4  # of both roles in both languages
QUIET_WITHIN_SECONDS = 15.0
CLEAN_WITHIN_SECONDS = 10.0
PROGRAMS = (
    ("print('hello')", "python"),
    ("console.log('hello')", "typescript"),
    ("import time\nprint('begun', flush=True)\ntime.sleep(60)", "python"),
    ("print('busy', flush=True)\nwhile True: pass", "python"),
    ("console.log('begun'); setTimeout(() => {}, 60_000);", "typescript"),
    ("while True: print('x' * 1000)", "python"),
    ("from servers.scripted import echo, slow\nfor _ in range(20): echo()\nslow()", "python"),
    (
        "import { echo, slow } from '/workspace/servers/scripted/index.js';\n"
        "for (let n = 0; n < 20; n++) await echo({}); await slow({});",
        "typescript",
    ),
)


@dataclass
class Sent:
    """An execution that the daemon acknowledged, the calls that it told, and its result if that still came."""

    execution_id: str
    calls: list[Any] = field(default_factory=list)
    result: Any = None


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


async def chaos(rounds: int, seed: int = 0) -> ChaosReport:
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
        epochs = {container.labels[f"{LABEL}.epoch"] for container in containers_of(victim.owner)}
        await asyncio.to_thread(victim.kill)
        killed_at = time.time()
        report.quiet_seconds.append(await _seconds_until(lambda: not _running(victim.owner), QUIET_WITHIN_SECONDS))
        report.still_running += _running(victim.owner)
        sent = await callers.all_sent()
    await victim.start()
    async with victim.caller("admin") as api:
        gone = await _seconds_until(lambda: not _of_epochs(victim.owner, epochs), CLEAN_WITHIN_SECONDS)
        report.clean_seconds.append(gone)
        report.still_there += _of_epochs(victim.owner, epochs)
        report.untruthful += await _untruthful(api, sent, killed_at)
        _count_interrupted(report, [(await api.get(f"/executions/{each.execution_id}"))[1] for each in sent])
    report.executions += len(sent)


async def _tools_are_listed(api: Api) -> bool:
    return bool((await api.get("/health"))[1]["toolsByServer"].get("scripted"))


async def _is_warm(api: Api) -> bool:
    return (await gauges(api))["code_executor_warm"] >= WARM_SANDBOXES


class Callers:
    """Several at once, each with one execution after another, until the daemon is gone."""

    def __init__(self, api: Api, draw: random.Random) -> None:
        self._api = api
        self._draw = draw
        self._sent: list[Sent] = []
        self._tasks = [asyncio.create_task(self._call()) for _ in range(CALLERS)]

    async def all_sent(self) -> list[Sent]:
        await asyncio.gather(*self._tasks)
        return self._sent

    async def _call(self) -> None:
        while await self._is_answered(*self._draw.choice(PROGRAMS)):
            pass

    async def _is_answered(self, code: str, language: str) -> bool:
        mine: Sent | None = None
        try:
            async for name, fields in self._api.stream(code, language, 120):
                if name == "started":
                    mine = Sent(fields["executionId"])
                    self._sent.append(mine)
                elif name == "tool_call" and mine is not None:
                    mine.calls.append(fields)
                elif name == "result" and mine is not None:
                    mine.result = fields
        except (aiohttp.ClientError, ConnectionError):
            return False
        return mine is not None and mine.result is not None


async def _seconds_until(condition: Callable[[], bool], limit: float) -> float:
    began = time.monotonic()
    with suppress(TimeoutError):
        await until(condition, seconds=limit)
    return time.monotonic() - began


def _running(owner: str) -> list[str]:
    return [str(container.id) for container in containers_of(owner) if container.status in ("running", "paused")]


def _of_epochs(owner: str, epochs: set[str]) -> list[str]:
    return [str(each.id) for each in containers_of(owner) if each.labels.get(f"{LABEL}.epoch") in epochs]


async def _untruthful(api: Api, sent: list[Sent], killed_at: float) -> list[str]:
    wrong = [f"{each.execution_id}: {told}" for each in sent if (told := await _lie_about(api, each, killed_at))]
    _, listing = await api.get("/executions?limit=500")
    open_ones = [each for each in listing["executions"] if each["state"] in ("queued", "running")]
    return wrong + [f"{each['executionId']}: still {each['state']}" for each in open_ones]


async def _lie_about(api: Api, sent: Sent, killed_at: float) -> str | None:
    """What the journal says wrongly of an execution, if anything."""
    status, record = await api.get(f"/executions/{sent.execution_id}")
    if status != 200:
        return f"the journal answers {status}"
    # The programs make one call after another, so what was told of them is how the ledger begins.
    if record["toolCalls"][: len(sent.calls)] != sent.calls:
        return f"has the calls {record['toolCalls']} where {sent.calls} were told"
    if sent.result is not None:
        told, recorded = (sent.result["outcome"], sent.result["toolCalls"]), (record["outcome"], record["toolCalls"])
        same = record["state"] == "finished" and told == recorded
        return None if same else f"was {told}, is told as {record['state']} {recorded}"
    if record["state"] == "finished":  # its end was written, but not yet sent
        early = datetime.fromisoformat(record["finishedAt"]).timestamp() <= killed_at
        return None if early else "is told as finished after the kill"
    return None if record["state"] == "interrupted" else f"is told as {record['state']}"


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    say(f"{options.rounds} rounds, seed {options.seed}")
    report = asyncio.run(chaos(options.rounds, options.seed))
    print(summary(report), *report.untruthful, sep="\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
