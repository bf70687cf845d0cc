"""Servers that send without end what is of no use: the loop goes on, and what comes too fast is not read."""

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from orchestrator.domain.errors import ToolUnavailable
from orchestrator.upstreams.entries import HttpKind, HttpServer, StdioServer
from orchestrator.upstreams.framing import LineSplitter
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.sse import events_in
from orchestrator.upstreams.transport import Alerts, StreamTransport
from tests.support.api import until
from tests.support.upstream_server import LegacySseServer, ScriptedProxy, SessionServer, Sized, serving
from tests.support.upstreams import http, running, until_connected

LINES_PER_TURN = 200
LINES_AT_ONCE = LINES_PER_SECOND = 20_000

USELESS = {
    "empty lines": b"\n",
    "empty lines of an old kind": b"\r",
    "comments": b": x\n",
    "messages": b"data:{}\n\n",
    "events without data": b"event: x\n\n",
    "short data": b"data:\n",
}


class Turns:
    """How often somebody else got the event loop."""

    def __init__(self):
        self.taken = 0

    async def take(self):
        while True:
            self.taken += 1
            await asyncio.sleep(0)

    async def __aenter__(self):
        self._task = asyncio.create_task(self.take())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.mark.parametrize("kind", USELESS)
async def test_the_loop_goes_on_while_a_chunk_of_many_lines_is_read(kind):
    chunk = USELESS[kind] * (200_000 // len(USELESS[kind]))
    lines = chunk.count(b"\n") + chunk.count(b"\r")

    async def one_chunk():
        yield chunk

    async with Turns() as turns:
        async for _ in events_in(one_chunk(), 1_000_000):
            pass
    assert turns.taken >= lines / LINES_PER_TURN


@pytest.fixture
def lines(monkeypatch):
    """Return how many lines were read so far, of whatever stream."""
    read = [0]
    feed = LineSplitter.feed

    def counting(self, chunk):
        read[0] += chunk.count(b"\n")
        return feed(self, chunk)

    monkeypatch.setattr(LineSplitter, "feed", counting)
    return lambda: read[0]


async def assert_paced(lines):
    """Watch a flood for a while. What is asserted holds on a machine of any speed."""
    await until(lambda: lines() > LINES_PER_TURN)
    async with Turns() as turns:
        before, began = lines(), time.monotonic()
        while time.monotonic() - began < 1:
            await asyncio.sleep(0)
        read, elapsed = lines() - before, time.monotonic() - began
    assert read > LINES_PER_TURN  # the control: it goes on
    assert read <= LINES_AT_ONCE + LINES_PER_SECOND * elapsed + 10 * LINES_PER_TURN
    assert turns.taken >= read / LINES_PER_TURN


async def flood(stream, piece):
    with suppress(ConnectionError):
        while True:
            await stream.write(piece * (65536 // len(piece)))


@asynccontextmanager
async def flooding(stream, piece):
    task = asyncio.create_task(flood(stream, piece))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("kind", ["empty lines", "messages"])
async def test_an_answer_that_never_comes_to_the_point_is_read_slowly_until_its_time_is_up(lines, kind):
    async def floods(request, _):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await flood(response, USELESS[kind])
        return response

    proxy = ScriptedProxy("db")
    proxy.behaviours["fail"] = floods
    async with serving(proxy.app()) as url, running(http("db", f"{url}/db/mcp")) as upstreams:
        await until_connected(upstreams, "db")
        calls = [asyncio.create_task(upstreams.call("db", "fail", {}, 3)) for _ in range(3)]
        await assert_paced(lines)
        assert "isError" not in await upstreams.call("db", "echo", {}, 30)
        for call in calls:
            with pytest.raises(ToolUnavailable, match="did not answer within 3 s"):
                await call


@pytest.mark.parametrize("kind", ["empty lines", "messages"])
async def test_notifications_without_end_are_read_slowly(lines, kind):
    server = SessionServer()
    async with serving(server.app()) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        await until(lambda: server.listeners)
        async with flooding(server.listeners[-1], USELESS[kind]):
            await assert_paced(lines)
            assert "isError" not in await upstreams.call("s", "echo", {}, 30)


@pytest.mark.parametrize("kind", ["empty lines", "messages"])
async def test_the_old_stream_is_read_slowly_when_it_says_nothing_without_end(lines, kind):
    server = LegacySseServer()
    async with serving(server.app()) as url, running(HttpServer("old", f"{url}/sse", HttpKind.SSE)) as upstreams:
        await until_connected(upstreams, "old")
        async with flooding(server.streams[-1], USELESS[kind]):
            await assert_paced(lines)
        server.drop.set()


FLOODS_A_PIPE = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"tools": [], "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if message["method"] == "tools/list":
        break
piece = json.loads(sys.argv[2]).encode() * 10000
while True:
    os.write(int(sys.argv[1]), piece)
"""


@pytest.mark.processes
@pytest.mark.parametrize(("pipe", "piece"), [(1, "\n"), (1, "{}\n"), (1, "?\n"), (1, "[{},{}]\n"), (2, "\n")])
async def test_a_process_that_writes_without_end_is_read_slowly(lines, pipe, piece):
    entry = StdioServer("own", sys.executable, ("-c", FLOODS_A_PIPE, str(pipe), json.dumps(piece)), {})
    async with running(entry) as upstreams:
        await until_connected(upstreams, "own")
        await assert_paced(lines)


class Hearing(StreamTransport):
    async def _send(self, message):
        pass


async def test_large_messages_that_nobody_asked_for_are_read_slowly():
    """There are few of them, but each takes as long as a hundred short ones."""
    hearing = Hearing(Alerts(relist=lambda: None, lost=lambda _: None), 1_000_000)
    message = b'{"junk":"' + b"x" * 60_000 + b'"}'
    heard, began = 0, time.monotonic()
    while time.monotonic() - began < 1:
        await hearing._receive(message)
        heard += 1
    weight = len(message) // 256
    assert 10 < heard <= (LINES_AT_ONCE + LINES_PER_SECOND * (time.monotonic() - began)) / weight + 2


async def test_answers_that_are_waited_for_do_not_use_up_the_pace(monkeypatch):
    useless = []

    async def note(_, size):
        useless.append(size)

    monkeypatch.setattr(ReadingPace, "after_useless", note)
    proxy = ScriptedProxy("db")
    proxy.behaviours["echo"] = Sized(streamed=True)
    async with serving(proxy.app()) as url, running(http("db", f"{url}/db/mcp")) as upstreams:
        await until_connected(upstreams, "db")
        for _ in range(5):
            await upstreams.call("db", "echo", {"bytes": 60_000}, 30)
    assert useless == []
