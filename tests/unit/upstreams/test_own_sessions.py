"""Servers that keep a session for each execution: opened by its first call, closed at its end, met by nobody else."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.domain.errors import GrantInvalid, SessionsFull, StateLost, ToolUnavailable
from orchestrator.domain.execution import RoomLimits, Shares
from orchestrator.domain.upstream import UpstreamState
from orchestrator.service.rooms import Rooms
from orchestrator.service.sessions import Sessions
from orchestrator.upstreams.entries import HttpKind, HttpServer, ServerEntry, StdioServer
from orchestrator.upstreams.upstreams import Upstreams
from tests.support import upstream_stdio
from tests.support.api import until
from tests.support.processes import processes_with
from tests.support.upstream_server import ScriptedProxy, SessionServer, SseProxy, serving, tool
from tests.support.upstreams import QUICK, http, running, status, text_of, tool_names, until_connected


@dataclass(frozen=True, slots=True)
class Place:
    """A connected server of one kind: whose sessions there are, and how it loses all of them but that for listing."""

    upstreams: Upstreams
    entry: ServerEntry
    sessions: Callable[[], int]
    lose: Callable[[], None]


def owner(rooms: Rooms | None = None, caller: str = "alice") -> Sessions:
    return Sessions(rooms or Rooms(RoomLimits()), caller)


async def count(upstreams: Upstreams, of: Sessions, seconds: float = 5) -> str:
    """Call as the service does."""
    await upstreams.open_session("s", of, seconds)
    return text_of(await upstreams.call("s", "count", {}, seconds, owner=of))


@asynccontextmanager
async def streamable(server: SessionServer | None = None, **more):
    server = server or SessionServer()
    server.tools = [tool("count")]
    async with serving(server.app()) as url:
        entry = HttpServer("s", f"{url}/mcp", has_own_sessions=True)
        async with running(entry, **more) as upstreams:
            await until_connected(upstreams, "s")
            (listing,) = server.sessions

            def lose():
                server.sessions = {listing}

            yield Place(upstreams, entry, lambda: len(server.sessions - {listing}), lose)
        assert server.sessions == set()


@asynccontextmanager
async def old_sse(**more):
    server = SseProxy("s")
    async with serving(server.app()) as url:
        entry = HttpServer("s", f"{url}/s/sse", HttpKind.SSE, has_own_sessions=True)
        async with running(entry, **more) as upstreams:
            await until_connected(upstreams, "s")
            (listing,) = server.sessions

            def lose():
                for name in server.sessions.keys() - {listing}:
                    server.drops[name].set()

            yield Place(upstreams, entry, lambda: len(server.sessions.keys() - {listing}), lose)
        await until(lambda: not server.sessions)


@asynccontextmanager
async def stdio(directory: Path, **more):
    mark = str(directory / "mark")
    entry = StdioServer("s", sys.executable, (upstream_stdio.__file__, mark), has_own_sessions=True)
    async with running(entry, **more) as upstreams:
        await until_connected(upstreams, "s")
        listing = processes_with(mark)
        assert len(listing) == 1

        def lose():
            for pid in processes_with(mark) - listing:
                os.kill(pid, signal.SIGKILL)

        yield Place(upstreams, entry, lambda: len(processes_with(mark) - listing), lose)
    assert processes_with(mark) == set()


@pytest.fixture(params=["streamable", "sse", pytest.param("stdio", marks=pytest.mark.processes)])
async def place(request, tmp_path):
    kinds = {"streamable": streamable, "sse": old_sse, "stdio": lambda: stdio(tmp_path)}
    async with kinds[request.param]() as place:
        yield place


async def test_each_execution_keeps_its_state_over_its_calls_and_sees_nobody_elses(place):
    first, second = owner(), owner()
    assert [await count(place.upstreams, first) for _ in range(3)] == ["1", "2", "3"]
    assert await count(place.upstreams, second) == "1"
    assert await count(place.upstreams, first) == "4"
    assert place.sessions() == place.upstreams.own_sessions == 2


async def test_no_session_is_opened_before_the_first_call(place):
    owner()
    assert place.sessions() == place.upstreams.own_sessions == 0


async def test_parallel_first_calls_share_the_one_session_that_they_open(place):
    mine = owner()
    counts = await asyncio.gather(*(count(place.upstreams, mine) for _ in range(10)))
    assert sorted(counts, key=int) == [str(number) for number in range(1, 11)]
    assert place.sessions() == 1


async def test_the_end_of_an_execution_ends_its_session_and_no_other(place):
    mine, other = owner(), owner()
    await count(place.upstreams, mine)
    await count(place.upstreams, other)
    mine.end()
    await until(lambda: place.sessions() == 1 == place.upstreams.own_sessions)
    assert await count(place.upstreams, other) == "2"
    with pytest.raises(GrantInvalid):
        await count(place.upstreams, mine)
    assert place.sessions() == 1


async def test_a_lost_session_fails_the_next_call_and_is_not_replaced_in_silence(place):
    mine = owner()
    await count(place.upstreams, mine)
    place.lose()
    await until(lambda: place.sessions() == 0)
    with pytest.raises(StateLost, match="no longer has this execution's session, so its state is gone: "):
        await count(place.upstreams, mine)
    assert await count(place.upstreams, mine) == "1"
    assert status(place.upstreams, "s").state is UpstreamState.CONNECTED
    assert place.sessions() == place.upstreams.own_sessions == 1


async def test_listing_goes_on_in_the_one_long_lived_session(place):
    mine = owner()
    await count(place.upstreams, mine)
    place.lose()
    assert "count" in tool_names(place.upstreams, "s")
    assert status(place.upstreams, "s").state is UpstreamState.CONNECTED


async def test_an_entry_that_changes_while_a_program_runs_costs_it_its_state_and_says_so(place):
    mine = owner()
    await count(place.upstreams, mine)
    await place.upstreams.reconfigure([replace(place.entry, lists_contents=True)])
    await until_connected(place.upstreams, "s")
    with pytest.raises(StateLost, match=r"servers\.json has changed"):
        await count(place.upstreams, mine)
    assert await count(place.upstreams, mine) == "1"


async def test_what_no_execution_calls_has_no_session_to_call_in(place):
    with pytest.raises(ToolUnavailable, match="called by executions alone"):
        await place.upstreams.call("s", "count", {}, 5)


async def test_a_call_that_gives_up_leaves_the_session_to_the_others_that_wait_for_it():
    server = SessionServer()
    async with streamable(server) as place:
        server.greeting = asyncio.Event()
        mine = owner()
        with pytest.raises(ToolUnavailable, match=r"did not begin a session within 0\.05 s"):
            await count(place.upstreams, mine, 0.05)
        patient = asyncio.create_task(count(place.upstreams, mine))
        await asyncio.sleep(0)
        server.greeting.set()
        assert await patient == "1"
        assert server.begun == 2


async def test_a_session_that_is_being_opened_when_its_execution_ends_is_ended_too():
    server = SessionServer()
    async with streamable(server) as place:
        server.greeting = asyncio.Event()
        mine = owner()
        waiting = asyncio.create_task(count(place.upstreams, mine))
        await until(lambda: server.begun == 2)
        waiting.cancel()
        mine.end()
        server.greeting.set()
        await until(lambda: len(server.ended) == 1 and place.sessions() == 0 == place.upstreams.own_sessions)


async def test_calls_under_way_when_the_session_is_lost_are_sent_once():
    server = SessionServer()
    async with streamable(server) as place:
        mine = owner()
        await count(place.upstreams, mine)
        place.lose()
        outcomes = await asyncio.gather(
            *(place.upstreams.call("s", "count", {}, 5, owner=mine) for _ in range(5)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [StateLost] * 5
        assert server.calls == 1


async def test_a_broken_connection_fails_its_call_and_leaves_the_session():
    server = SessionServer()
    async with streamable(server) as place:
        mine = owner()
        await count(place.upstreams, mine)
        with pytest.raises(ToolUnavailable, match="did not answer"):
            await place.upstreams.call("s", "slow", {}, 0.1, owner=mine)
        assert await count(place.upstreams, mine) == "2"


async def test_a_stateless_server_is_refused_rather_than_shared():
    proxy = ScriptedProxy("s")
    async with serving(proxy.app()) as url:
        entry = replace(http("s", f"{url}/s/mcp"), has_own_sessions=True)
        async with running(entry) as upstreams:
            await until_connected(upstreams, "s")
            with pytest.raises(ToolUnavailable, match="it has no sessions"):
                await count(upstreams, owner())
            assert (proxy.count("tools/call"), upstreams.own_sessions) == (0, 0)


async def test_a_server_that_refuses_further_sessions_is_unavailable_for_that_call_and_stays_up():
    server = SessionServer()
    async with streamable(server) as place:
        begin = server._begin

        async def refuse(request, message):
            return web.Response(status=503)

        server._begin = refuse
        mine = owner()
        with pytest.raises(ToolUnavailable, match=r"HTTP 503"):
            await count(place.upstreams, mine)
        server._begin = begin
        assert await count(place.upstreams, mine) == "1"
        assert status(place.upstreams, "s").state is UpstreamState.CONNECTED


def few(total: int, per_caller: int) -> Rooms:
    return Rooms(RoomLimits(sessions_per_server=Shares(total, per_caller)))


async def test_a_full_server_makes_a_call_wait_for_as_long_as_a_call_may_take():
    async with streamable() as place:
        rooms = few(2, 1)
        first, second = owner(rooms), owner(rooms)
        await count(place.upstreams, first)
        with pytest.raises(SessionsFull, match=r"in use for 0\.05 s"):
            await count(place.upstreams, second, 0.05)
        assert await count(place.upstreams, owner(rooms, "bob")) == "1"  # whose share is free
        waiting = asyncio.create_task(count(place.upstreams, second))
        await asyncio.sleep(0)
        assert place.sessions() == 2
        first.end()
        assert await waiting == "1"


async def test_callers_take_turns_when_a_server_is_full():
    async with streamable() as place:
        rooms = few(1, 1)
        holder = owner(rooms, "alice")
        await count(place.upstreams, holder)
        order: list[str] = []
        owners = [owner(rooms, name) for name in ("alice", "alice", "bob")]

        async def visit(mine: Sessions, name: str) -> None:
            await count(place.upstreams, mine)
            order.append(name)
            mine.end()

        names = ("alice 1", "alice 2", "bob")
        visits = [asyncio.create_task(visit(mine, name)) for mine, name in zip(owners, names, strict=True)]
        await asyncio.sleep(0.05)
        holder.end()
        await asyncio.gather(*visits)
        assert order.index("bob") < order.index("alice 2")


async def test_an_execution_that_ends_while_it_waits_for_a_session_gives_up_its_turn():
    async with streamable() as place:
        rooms = few(1, 1)
        holder, given_up, next_one = owner(rooms), owner(rooms), owner(rooms)
        await count(place.upstreams, holder)
        waiting = [asyncio.create_task(count(place.upstreams, each)) for each in (given_up, next_one)]
        await asyncio.sleep(0)
        given_up.end()
        with pytest.raises(ToolUnavailable):
            await waiting[0]
        holder.end()
        assert await waiting[1] == "1"


async def test_many_executions_at_once_leave_nothing(place):
    rooms = few(4, 4)

    async def live() -> list[str]:
        mine = owner(rooms)
        try:
            return [await count(place.upstreams, mine, 30) for _ in range(2)]
        finally:
            mine.end()

    assert await asyncio.gather(*(live() for _ in range(12))) == [["1", "2"]] * 12
    await until(lambda: place.sessions() == 0 == place.upstreams.own_sessions)


async def test_a_session_that_takes_too_long_to_open_is_given_up():
    server = SessionServer()
    async with streamable(server, pacing=replace(QUICK, connect_seconds=0.3)) as place:
        server.greeting = asyncio.Event()
        with pytest.raises(ToolUnavailable, match="does not begin a session in time"):
            await count(place.upstreams, owner())
        assert place.upstreams.own_sessions == 0


@pytest.mark.processes
async def test_a_process_that_is_gone_is_told_as_lost_state_by_the_very_next_call(tmp_path):
    async with stdio(tmp_path) as place:
        for _ in range(20):
            mine = owner()
            await count(place.upstreams, mine)
            place.lose()
            with pytest.raises(StateLost):  # however far the daemon is with noticing it
                await place.upstreams.call("s", "count", {}, 5, owner=mine)
            mine.end()


async def test_an_old_server_that_forgets_a_session_but_not_its_stream_is_told_as_lost_state():
    server = SseProxy("s")
    async with serving(server.app()) as url:
        entry = HttpServer("s", f"{url}/s/sse", HttpKind.SSE, has_own_sessions=True)
        async with running(entry) as upstreams:
            await until_connected(upstreams, "s")
            mine, known = owner(), set(server.sessions)
            await count(upstreams, mine)
            (own,) = server.sessions.keys() - known
            server.forgotten.add(own)
            with pytest.raises(StateLost, match="lost our session"):
                await count(upstreams, mine)
            assert await count(upstreams, mine) == "1"
