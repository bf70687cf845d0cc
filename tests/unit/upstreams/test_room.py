"""Large results: room is reserved before they are read, and they are passed on as the server wrote them."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.domain.errors import LimitExceeded, ToolUnavailable
from orchestrator.domain.json_text import JsonObject
from orchestrator.domain.upstream import LargeResult, UpstreamState, is_failure
from orchestrator.upstreams import transport
from orchestrator.upstreams.entries import HttpKind, HttpServer, StdioServer
from orchestrator.upstreams.jsonrpc import request
from orchestrator.upstreams.large_messages import decode_reply, encode_call
from tests.support import upstream_stdio
from tests.support.api import until
from tests.support.upstream_server import LegacySseServer, ScriptedProxy, Sized, serving, text_result, tool
from tests.support.upstreams import http, running, status, text_of, until_connected

MIB = 1024 * 1024
MAX_RESULT_BYTES = 32 * MIB


class Room:
    """Says when there is room, and remembers what it was asked for."""

    def __init__(self, *, open_=True, owner="somebody"):
        self.owner = owner
        self.asked = []
        self.shrunk = []
        self.turns = 0
        self.refusal = None
        self.go = asyncio.Event()
        if open_:
            self.go.set()

    async def reserve(self, size):
        self.asked.append(size)
        await self.go.wait()
        if self.refusal is not None:
            raise self.refusal

    def shrink(self, size):
        self.shrunk.append(size)

    async def in_turn(self, work):
        self.turns += 1
        return await asyncio.to_thread(work)


@pytest.fixture
async def proxy():
    proxy = ScriptedProxy("db")
    proxy.tools["db"].append(tool("sized"))
    proxy.behaviours["sized"] = Sized()
    return proxy


@pytest.fixture
async def upstreams(proxy):
    async with (
        serving(proxy.app()) as url,
        running(http("db", f"{url}/db/mcp"), max_result_bytes=MAX_RESULT_BYTES, call_timeout_seconds=5) as upstreams,
    ):
        await until_connected(upstreams, "db")
        yield upstreams


def answers(proxy, raw):
    async def answer(request, message):
        return web.Response(body=raw.replace(b"ID", str(message["id"]).encode()), content_type="application/json")

    proxy.behaviours["sized"] = answer


async def test_a_small_result_is_read_without_asking_and_decoded(upstreams):
    room = Room()
    result = await upstreams.call("db", "sized", {"bytes": 1000}, 5, room)
    assert (text_of(result), room.asked, room.turns) == ("x" * 1000, [], 0)


async def test_a_result_that_says_how_large_it_is_gets_as_much_room(upstreams):
    room = Room()
    result = await upstreams.call("db", "sized", {"bytes": MIB}, 5, room)
    assert isinstance(result, LargeResult)
    assert json.loads(result.text) == text_result("x" * MIB)
    assert (room.asked[0], room.turns) == (room.shrunk[-1], 1)
    assert MIB < room.asked[0] < MIB + 200


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_result_that_does_not_say_it_gets_room_for_the_largest(proxy, upstreams, streamed):
    proxy.behaviours["sized"] = Sized(declared=False, streamed=streamed)
    room = Room()
    result = await upstreams.call("db", "sized", {"bytes": MIB}, 5, room)
    assert json.loads(result.text) == text_result("x" * MIB)
    assert room.asked[0] == MAX_RESULT_BYTES
    assert streamed or MIB < room.shrunk[-1] < MIB + 200


@pytest.mark.parametrize(("declared", "streamed"), [(True, False), (False, False), (False, True)])
async def test_what_there_is_no_room_for_is_not_read(proxy, upstreams, declared, streamed):
    sized = proxy.behaviours["sized"] = Sized(declared=declared, streamed=streamed)
    room = Room(open_=False)
    calling = asyncio.create_task(upstreams.call("db", "sized", {"bytes": 30 * MIB}, 5, room))
    await until(lambda: room.asked)
    for _ in range(50):
        await asyncio.sleep(0)
    # What sockets and buffers take; the control is that the rest comes when there is room.
    assert sized.sent < 20 * MIB
    room.go.set()
    assert len((await calling).text) > 30 * MIB
    assert sized.sent >= 30 * MIB


async def test_time_spent_waiting_for_room_is_not_the_servers(upstreams):
    room = Room(open_=False)
    asyncio.get_running_loop().call_later(0.6, room.go.set)
    result = await upstreams.call("db", "sized", {"bytes": MIB}, 0.3, room)
    assert len(result.text) > MIB
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


async def test_time_after_the_wait_is_the_servers_again(proxy, upstreams):
    async def stalls(request, message):
        response = web.StreamResponse(headers={"Content-Length": str(MIB), "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"x" * 100_000)
        await asyncio.Event().wait()

    proxy.behaviours["sized"] = stalls
    room = Room(open_=False)
    asyncio.get_running_loop().call_later(0.4, room.go.set)
    with pytest.raises(ToolUnavailable, match=r"did not answer within 0\.2 s"):
        await upstreams.call("db", "sized", {}, 0.2, room)


async def test_a_server_that_hangs_up_while_its_answer_waits_for_room_is_not_taken_for_broken(
    proxy, upstreams, monkeypatch
):
    monkeypatch.setattr("orchestrator.upstreams.upstream._NOTICEABLE_SECONDS", 0.05)
    gone = asyncio.Event()

    async def hangs_up(request, message):
        response = web.StreamResponse(headers={"Content-Length": str(MIB), "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"x" * 100_000)
        await gone.wait()
        request.transport.abort()
        return response

    proxy.behaviours["sized"] = hangs_up
    for _ in range(5):
        room = Room(open_=False)
        asyncio.get_running_loop().call_later(0.1, room.go.set)
        calling = asyncio.create_task(upstreams.call("db", "sized", {}, 5, room))
        await until(lambda room=room: room.asked)
        gone.set()
        with pytest.raises(ToolUnavailable, match="the connection broke"):
            await calling
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


async def test_a_refusal_of_room_is_told_as_it_is(upstreams):
    room = Room()
    room.refusal = LimitExceeded("There is none.")
    with pytest.raises(LimitExceeded, match="There is none"):
        await upstreams.call("db", "sized", {"bytes": MIB}, 5, room)


async def test_a_call_that_is_given_up_while_it_waits_for_room_leaves_the_server_well(upstreams):
    room = Room(open_=False)
    calling = asyncio.create_task(upstreams.call("db", "sized", {"bytes": MIB}, 5, room))
    await until(lambda: room.asked)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert text_of(await upstreams.call("db", "sized", {"bytes": 3}, 5, Room())) == "xxx"


# --- what is known of a large result ---

LONG = b'{"type":"text","text":"' + b"x" * 100_000 + b'"}'


async def large(upstreams, proxy, result):
    answers(proxy, b'{"jsonrpc":"2.0","id":ID,"result":' + result + b"}")
    return await upstreams.call("db", "sized", {}, 5, Room())


@pytest.mark.parametrize(
    ("value", "failed"),
    [(b"true", True), (b"false", False), (b"null", False), (b'"yes"', True), (b"0", False), (b"[%s]" % LONG, True)],
)
async def test_a_large_result_says_whether_the_tool_failed(upstreams, proxy, value, failed):
    result = await large(upstreams, proxy, b'{"content":[' + LONG + b'],"isError":' + value + b"}")
    assert is_failure(result) is failed
    assert not is_failure(await large(upstreams, proxy, b'{"content":[' + LONG + b"]}"))


async def test_a_large_result_has_its_images_at_hand(upstreams, proxy):
    contents = [
        {"type": "image", "mimeType": "image/png", "data": "A" * 100_000},
        {"data": "B/B/", "type": "image"},
        {"type": "audio", "data": "C"},
        {"type": "image", "data": 5},
        {"type": "image"},
        "image",
    ]
    result = await large(upstreams, proxy, json.dumps({"content": contents}).encode().replace(b"/", b"\\/"))
    assert result.images == ("A" * 100_000, "B/B/", "", "")


async def test_images_are_kept_up_to_a_limit(upstreams, proxy):
    contents = [{"type": "image", "data": "A" * 3 * MIB}, {"type": "image", "data": "B" * 4 * MIB}]
    contents += [{"type": "image", "data": "C"}] * 50
    result = await large(upstreams, proxy, json.dumps({"content": contents}).encode())
    assert [image[:1] for image in result.images] == ["A"] + ["C"] * 9


@pytest.mark.parametrize("padding", [0, 100_000])
async def test_numbers_that_are_not_finite_are_null_in_a_result_of_any_size(upstreams, proxy, padding):
    numbers = b'"structuredContent":{"a":[NaN,-Infinity,1e999,1.5]}'
    result = await large(upstreams, proxy, b'{"pad":"' + b"x" * padding + b'",' + numbers + b"}")
    if padding:
        assert json.loads(result.text, parse_constant=pytest.fail)["structuredContent"]["a"] == [None, None, None, 1.5]
    else:
        assert result["structuredContent"]["a"] == [None, None, None, 1.5]


async def test_what_is_asked_of_a_large_result_is_decoded(upstreams, proxy):
    result = await large(upstreams, proxy, b'{"content":[' + LONG + b'],"structuredContent":{"a":1}}')
    assert result["structuredContent"] == {"a": 1}
    assert {**result, "more": 1}.keys() == {"content", "structuredContent", "more"}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[LONG]',
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[LONG],}}',
        b'{"jsonrpc":"2.0","id":ID,"result":[LONG]}',
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[LONG]}} more',
        b'{"jsonrpc":"2.0","id":[LONG],"result":{}}',
        b'{"jsonrpc":"2.0","id":99999,"result":{"content":[LONG]}}',
        b'{"jsonrpc":"2.0","id":ID,"junk":LONG}',
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[\xff LONG]}}',
        b'"' + b"x" * 100_000 + b'"',
    ],
)
async def test_a_large_answer_that_is_none_is_refused_as_a_small_one_is(upstreams, proxy, raw):
    for filling in (b'"x"', LONG):
        answers(proxy, raw.replace(b"LONG", filling))
        with pytest.raises(ToolUnavailable):
            await upstreams.call("db", "sized", {}, 5, Room())


async def test_a_large_error_is_the_tools_and_one_that_is_too_large_is_refused(upstreams, proxy):
    error = b'{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"%s"}}'
    answers(proxy, error % (b"no " * 50_000))
    result = await upstreams.call("db", "sized", {}, 5, Room())
    assert is_failure(result)
    assert text_of(result).startswith("no " * 3_000)  # its end is left out
    answers(proxy, error % (b"no " * 500_000))
    with pytest.raises(LimitExceeded):
        await upstreams.call("db", "sized", {}, 5, Room())


async def test_a_large_batch_is_decoded():
    raw = b'[{"jsonrpc":"2.0","id":1,"result":{"content":[' + LONG + b"]}}]"
    (message,) = await decode_reply(raw, Room())
    assert message["id"] == 1


# --- large arguments ---


@pytest.mark.parametrize("text", [b'{"a": [1, 2]}', b'{\n"a":\r\n [1,\n2]}', b'{"a":\r[1,2]}', b"{}"])
def test_arguments_that_stay_text_are_written_as_they_are_in_one_line(text):
    params = {"name": "query", "arguments": JsonObject(bytearray(text)), "_meta": {"a": "null", "arguments": None}}
    line = encode_call(request(7, "tools/call", params))
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == {
        **request(7, "tools/call", {**params, "arguments": json.loads(text)}),
    }


# --- transports on which all replies come on one stream ---

PROGRAM = str(Path(upstream_stdio.__file__))


class OnStdio:
    name = "own"

    async def __aenter__(self):
        entry = StdioServer("own", sys.executable, (PROGRAM,), {"PATH": os.environ["PATH"]})
        self._running = running(entry, max_result_bytes=MAX_RESULT_BYTES)
        self.upstreams = await self._running.__aenter__()
        await until_connected(self.upstreams, "own")
        return self

    async def __aexit__(self, *given):
        await self._running.__aexit__(*given)

    async def huge(self, room, size=MIB):
        return await self.upstreams.call("own", "huge", {"bytes": size}, 5, room)

    async def small(self):
        return await self.upstreams.call("own", "echo", {"n": 1}, 5, Room())


class OnLegacySse(OnStdio):
    async def __aenter__(self):
        self.server = LegacySseServer()
        self._serving = serving(self.server.app())
        url = await self._serving.__aenter__()
        self._running = running(HttpServer("own", f"{url}/sse", HttpKind.SSE), max_result_bytes=MAX_RESULT_BYTES)
        self.upstreams = await self._running.__aenter__()
        await until_connected(self.upstreams, "own")
        return self

    async def __aexit__(self, *given):
        self.server.drop.set()
        await self._running.__aexit__(*given)
        await self._serving.__aexit__(*given)

    async def huge(self, room, size=MIB):
        self.server.huge_bytes = size
        return await self.upstreams.call("own", "echo", {}, 5, room)

    async def small(self):
        self.server.huge_bytes = 0
        return await self.upstreams.call("own", "echo", {"n": 1}, 5, Room())


@pytest.fixture(params=[OnStdio, OnLegacySse])
async def stream(request):
    async with request.param() as stream:
        yield stream


async def test_a_large_result_on_a_stream_is_handed_over_when_there_is_room(stream):
    room = Room()
    result = await stream.huge(room)
    assert json.loads(result.text) == text_result("x" * MIB)
    assert (len(room.asked), room.turns) == (1, 1)
    assert MIB < room.asked[0] < MIB + 200


async def test_a_result_for_which_there_is_no_room_in_time_is_discarded_for_its_call_only(stream, monkeypatch):
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.1)
    calling = asyncio.create_task(stream.huge(Room(open_=False)))
    with pytest.raises(LimitExceeded, match=r"there was no room for it in time\. Make fewer calls"):
        await calling
    assert text_of(await stream.small()) == '{"n": 1}'
    assert len((await stream.huge(Room())).text) > MIB
    assert status(stream.upstreams, "own").state is UpstreamState.CONNECTED


async def test_after_a_wait_in_vain_nobody_waits_behind_a_caller_without_room(stream, monkeypatch):
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.1)
    with pytest.raises(LimitExceeded):
        await stream.huge(Room(open_=False))
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 3600)
    async with asyncio.timeout(10):
        for _ in range(5):
            with pytest.raises(LimitExceeded):
                await stream.huge(Room(open_=False))
        assert text_of(await stream.small()) == '{"n": 1}'


async def test_after_a_wait_in_vain_for_one_callers_room_that_of_another_is_still_waited_for(stream, monkeypatch):
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.1)
    with pytest.raises(LimitExceeded):
        await stream.huge(Room(open_=False, owner="greedy"))
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 5)
    room = Room(open_=False, owner="modest")
    calling = asyncio.create_task(stream.huge(room))
    await until(lambda: room.asked or calling.done())
    room.go.set()
    assert len((await calling).text) > MIB


async def test_a_wait_that_ends_soon_is_worth_it(stream):
    room = Room(open_=False)
    calling = asyncio.create_task(stream.huge(room))
    await until(lambda: room.asked)
    room.go.set()
    assert len((await calling).text) > MIB


async def test_a_refusal_on_a_stream_fails_its_call_only(stream):
    room = Room()
    room.refusal = LimitExceeded("There is none.")
    with pytest.raises(LimitExceeded, match="There is none"):
        await stream.huge(room)
    assert text_of(await stream.small()) == '{"n": 1}'


async def test_a_call_that_is_given_up_while_its_reply_waits_does_not_end_the_stream(stream, monkeypatch):
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.2)
    room = Room(open_=False)
    calling = asyncio.create_task(stream.huge(room))
    await until(lambda: room.asked)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert text_of(await stream.small()) == '{"n": 1}'
    room.go.set()
    assert text_of(await stream.small()) == '{"n": 1}'


async def test_a_large_reply_that_nobody_waits_for_is_not_decoded(stream, monkeypatch):
    decoded = []
    decode = transport.decode

    async def watched(raw):
        decoded.append(len(raw))
        return await decode(raw)

    monkeypatch.setattr(transport, "decode", watched)
    calling = asyncio.create_task(stream.huge(Room(), 20 * MIB))
    for _ in range(3):
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert text_of(await stream.small()) == '{"n": 1}'
    assert max(decoded) < 65536
