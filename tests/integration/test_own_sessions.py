"""Programs that use a server with state: each has it to itself, and nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import upstream_stdio
from tests.support.api import Api, eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import PROJECT, Installation
from tests.support.metrics import gauges
from tests.support.processes import processes_with
from tests.support.programs import UNTIL_ENDED, held
from tests.support.stateful_server import StatefulServer, served_by_uvicorn

COUNT = "from servers.browser import count\n"
COUNT_THREE_TIMES = COUNT + "print([int(count()) for _ in range(3)])"
COUNT_AND_STAY = COUNT + "print(count(), flush=True)" + UNTIL_ENDED
COUNT_UNTIL_LOST = (
    COUNT
    + """
import time
print(count(), flush=True)
while True:
    time.sleep(0.02)
    try:
        if count() == "1":
            print("again")
            break
    except Exception as error:
        print(type(error).__name__, error.code, error)
"""
)
KINDS = ("streamable", "sse", "stdio")


@dataclass(frozen=True)
class Place:
    installation: Installation
    alive: Callable[[], int]  # sessions that the server has for executions
    lose: Callable[[], None]

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[Api]:
        async with self.installation.run() as api:
            await eventually(lambda: _is_listed(api))
            yield api


async def _is_listed(api: Api) -> bool:
    return bool((await api.get("/health"))[1]["toolsByServer"].get("browser"))


async def no_session_is_left(place: Place, api: Api) -> bool:
    return place.alive() == 0 == (await gauges(api))["code_executor_server_sessions"]


def started_at(pid: int) -> int:
    """Return ticks since boot. Process ids wrap around, so the lowest is not always the oldest."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def installed(directory: Path, entry: dict[str, object], **settings: object) -> Installation:
    (directory / "servers.json").write_text(json.dumps({"mcpServers": {"browser": {**entry, "session": "execution"}}}))
    roles = json.loads((PROJECT / "roles.json").read_text())
    roles["roles"]["developer"]["servers"].append("browser")
    (directory / "roles.json").write_text(json.dumps(roles))
    files = {"servers_file": directory / "servers.json", "roles_file": directory / "roles.json"}
    return Installation.create(directory, **files, **settings)


@asynccontextmanager
async def served(kind: str, directory: Path, **settings: object) -> AsyncIterator[Place]:
    """One session, the first, is the daemon's own for listing."""
    if kind == "stdio":
        mark = str(directory / "mark")
        entry = {"command": sys.executable, "args": [upstream_stdio.__file__, mark]}

        def kill_all_but_the_first() -> None:
            for pid in sorted(processes_with(mark), key=started_at)[1:]:
                os.kill(pid, signal.SIGKILL)

        yield Place(
            installed(directory, entry, **settings),
            lambda: max(0, len(processes_with(mark)) - 1),
            kill_all_but_the_first,
        )
        assert processes_with(mark) == set()
        return
    server = StatefulServer()
    app, path = (server.streamable_app(), "/mcp") if kind == "streamable" else (server.sse_app(), "/sse")

    def forget_those_that_count() -> None:
        for session in server.alive() & set(server.counters):
            server.forget(session)

    async with served_by_uvicorn(app) as url:
        place = installed(directory, {"url": url + path}, **settings)
        yield Place(place, lambda: max(0, len(server.alive()) - 1), forget_those_that_count)
        await until(lambda: not server.alive())


@pytest.fixture(scope="module", params=KINDS)
async def running(request, tmp_path_factory):
    async with served(request.param, tmp_path_factory.mktemp(request.param)) as place, place.daemon() as api:
        yield place, api


async def test_programs_at_once_each_keep_their_own_state_over_their_calls(running):
    place, api = running
    async with held(api, COUNT_AND_STAY) as neighbour:
        assert neighbour.line == "1"
        results = await asyncio.gather(*(api.python(COUNT_THREE_TIMES) for _ in range(3)))
        assert [result["output"] for result in results] == ["[1, 2, 3]\n"] * 3, results[0]["stderr"]
        assert place.alive() >= 1
    await eventually(lambda: no_session_is_left(place, api))


async def test_a_developers_program_does_not_meet_the_admins_state(running):
    place, api = running
    async with held(api, COUNT_AND_STAY), api.as_caller(place.installation.keys["developer"]) as developer:
        assert (await developer.python(COUNT_THREE_TIMES))["output"] == "[1, 2, 3]\n"
        assert place.alive() >= 1
    await eventually(lambda: no_session_is_left(place, api))


async def test_parallel_first_calls_of_a_typescript_program_share_one_session(running):
    place, api = running
    code = """
    import { count } from '/workspace/servers/browser/count.js';
    const counts = await Promise.all(Array.from({ length: 8 }, () => count({})));
    console.log(JSON.stringify(counts.map(Number).sort((a, b) => a - b)));
    """
    result = await api.typescript(code)
    assert result["output"] == "[1,2,3,4,5,6,7,8]\n", result
    await eventually(lambda: no_session_is_left(place, api))


@pytest.mark.parametrize(
    ("code", "seconds", "outcome"),
    [
        (COUNT + "count(); raise SystemExit(3)", 30, "failed"),
        (COUNT + "count()" + UNTIL_ENDED, 15, "timed_out"),
        (COUNT + "count(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 30, "failed"),
        (COUNT + "count(); held = [bytearray(1 << 20) for _ in range(4000)]", 30, "out_of_memory"),
    ],
    ids=["exit", "timeout", "kill", "memory"],
)
async def test_however_a_program_ends_its_session_ends_with_it(running, code, seconds, outcome):
    place, api = running
    result = await api.python(code, seconds)
    assert (result["outcome"], [call["outcome"] for call in result["toolCalls"]]) == (outcome, ["done"])
    await eventually(lambda: no_session_is_left(place, api))


async def test_a_cancelled_program_leaves_no_session(running):
    place, api = running
    async with held(api, COUNT_AND_STAY) as program:
        assert place.alive() == 1
        await api.delete(f"/executions/{program.execution_id}")
        await eventually(lambda: no_session_is_left(place, api))


async def test_a_client_that_goes_away_leaves_no_session(running):
    place, api = running
    async with held(api, COUNT_AND_STAY):
        assert place.alive() == 1
    await eventually(lambda: no_session_is_left(place, api))


async def test_a_session_that_the_server_lost_is_told_to_the_program_and_then_begun_anew(running):
    place, api = running
    output = ""
    async with aclosing(api.stream(COUNT_UNTIL_LOST, "python")) as events:
        async for name, fields in events:
            if name == "stdout":
                if not output:
                    place.lose()
                output += fields["text"]
    lines = output.splitlines()
    assert lines[0] == "1"
    assert lines[1].startswith(
        "ToolUnavailable state_lost browser/count: The server browser no longer has this execution"
    )
    assert "the next call to this server begins a new session" in lines[2]
    assert not [line for line in lines if "tool_unavailable" in line]
    assert lines[-1] == "again"
    await eventually(lambda: no_session_is_left(place, api))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_that_is_taken_away_takes_the_sessions_of_its_programs_along(kind, tmp_path):
    async with (
        served(kind, tmp_path) as place,
        place.daemon() as admin,
        admin.as_caller(place.installation.keys["developer"]) as developer,
        held(developer, COUNT_AND_STAY),
    ):
        assert place.alive() == 1
        (place.installation.settings.keys_dir / "code-executor-developer.sha256").unlink()
        await eventually(lambda: no_session_is_left(place, admin))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_daemon_that_stops_closes_the_sessions_of_what_still_runs(kind, tmp_path):
    async with served(kind, tmp_path, shutdown_grace_seconds=0) as place:
        async with place.daemon() as api:
            program = asyncio.create_task(api.python(COUNT_AND_STAY, 60))
            await until(lambda: place.alive() == 1)
        await asyncio.gather(program, return_exceptions=True)
        if kind == "sse":  # its server notices a moment later that the stream was closed
            await until(lambda: place.alive() == 0)
        assert place.alive() == 0


@pytest.mark.parametrize("end", ["terminate", "kill"])
async def test_a_daemon_of_its_own_leaves_no_process_of_an_execution_however_it_ends(end, tmp_path):
    async with served("stdio", tmp_path, shutdown_grace_seconds=0) as place:
        async with DaemonProcess.running(place.installation) as daemon:
            await eventually(lambda: _is_listed(daemon.api))
            program = asyncio.create_task(daemon.api.python(COUNT_AND_STAY, 60))
            await until(lambda: place.alive() == 1)
            if end == "kill":
                daemon.kill()
            else:
                assert await daemon.terminate() == 0
            await asyncio.gather(program, return_exceptions=True)
        await until(lambda: not processes_with(str(tmp_path / "mark")))


async def test_a_full_server_makes_programs_wait_and_tells_those_that_wait_too_long(tmp_path):
    limits = {"max_server_sessions": 2, "max_server_sessions_per_caller": 1, "tool_timeout_seconds": 5}
    attempt = COUNT + "try: count()\nexcept Exception as error: print(type(error).__name__, error.code)"
    async with served("streamable", tmp_path, **limits) as place, place.daemon() as admin:
        async with admin.as_caller(place.installation.keys["developer"]) as developer, held(admin, COUNT_AND_STAY):
            refused = await admin.python(attempt)
            assert refused["output"] == "ToolLimitExceeded sessions_full\n", refused
            assert [call["outcome"] for call in refused["toolCalls"]] == ["limited"]
            assert (await developer.python(COUNT_THREE_TIMES))["output"] == "[1, 2, 3]\n"  # it has its own share
        assert (await admin.python(COUNT_THREE_TIMES))["output"] == "[1, 2, 3]\n"
