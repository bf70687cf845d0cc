"""The bridge against a daemon that does as it is told."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from orchestrator.commands import bridge as bridge_module
from orchestrator.commands.bridge import Bridge
from tests.support.api import until
from tests.support.upstream_server import serving

Json = dict[str, Any]
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Daemon:
    """Speaks just enough of the transport; `slow` calls answer when they are let go."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.opened = 0
        self.refuses_initialize = False
        self.error_without_id = False
        self.seen: list[tuple[Json, dict[str, str]]] = []
        self.go = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.started = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self.post)
        app.router.add_delete("/mcp", self.delete)
        return app

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((message, headers))
        if headers.get("authorization") != "Bearer right":
            problem = {"detail": "The key is not known.", "hint": "Send the key.", "code": "unauthenticated"}
            return web.json_response(problem, status=401, content_type="application/problem+json")
        if message["method"] == "initialize" and self.refuses_initialize:
            return web.json_response({"detail": "It is starting."}, status=503)
        if message["method"] == "initialize":
            return self._open(message)
        if self.error_without_id:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
            return web.json_response(error, status=400)
        if "mcp-method" not in headers and headers.get("mcp-session-id") not in self.sessions:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}
            return web.json_response(error, status=404)
        if "id" not in message:
            return web.Response(status=202)
        return await self._answer(request, message)

    async def delete(self, request: web.Request) -> web.Response:
        self.sessions.discard(request.headers["Mcp-Session-Id"])
        return web.Response()

    def _open(self, message: Json) -> web.Response:
        self.opened += 1
        self.sessions.add(session := f"s{self.opened}")
        result = {"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": "2025-11-25"}}
        return web.json_response(result, headers={"Mcp-Session-Id": session})

    async def _answer(self, request: web.Request, message: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\r\n\r\n')
        self.started.set()
        try:
            if message["method"] == "slow":
                await self.go.wait()
        except asyncio.CancelledError:
            self.hung_up.set()
            raise
        result = {"jsonrpc": "2.0", "id": message["id"], "result": {"of": message["method"]}}
        await response.write(b": ping\r\n\r\nevent: message\r\ndata: " + json.dumps(result).encode() + b"\r\n\r\n")
        return response


class Client:
    def __init__(self, url: str, key: str = "right") -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.out: list[str] = []
        self.complaints: list[str] = []
        bridge = Bridge(url, key, self.out.append, self.complaints.append)
        self.task = asyncio.create_task(bridge.run(self._stdin()))

    async def _stdin(self) -> AsyncIterator[bytes]:
        while line := await self.lines.get():
            yield line

    def say(self, *messages: Json | bytes) -> None:
        for message in messages:
            self.lines.put_nowait(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def answer(self, request_id: object) -> Json:
        await until(lambda: any(message.get("id") == request_id for message in self.heard))
        return next(message for message in self.heard if message.get("id") == request_id)

    @property
    def heard(self) -> list[Json]:
        return [json.loads(line) for line in self.out]

    async def leave(self) -> None:
        self.lines.put_nowait(b"")
        await asyncio.wait_for(self.task, 5)


@asynccontextmanager
async def connected(key: str = "right") -> AsyncIterator[tuple[Daemon, Client]]:
    daemon = Daemon()
    async with serving(daemon.app()) as url:
        client = Client(url, key)
        yield daemon, client
        daemon.go.set()
        await client.leave()


async def test_messages_are_passed_on_in_the_session_and_answers_come_back():
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        client.say(INITIALIZED, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (await client.answer(1))["result"] == {"of": "ping"}
        ping = next(headers for message, headers in daemon.seen if message["method"] == "ping")
    assert (ping["mcp-session-id"], ping["mcp-protocol-version"]) == ("s1", "2025-11-25")
    assert daemon.sessions == set(), "the session outlived the client"


async def test_every_line_on_stdout_is_one_json_rpc_message():
    async with connected() as (_, client):
        client.say(b"not json\n", b"[]\n", b"\n", INITIALIZE)
        await client.answer(0)
    assert all(message["jsonrpc"] == "2.0" for message in client.heard)
    assert [message["error"]["code"] for message in client.heard if "error" in message] == [-32700, -32600]


async def test_a_request_of_the_era_without_sessions_carries_its_headers():
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    call = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "naïve", "_meta": meta}}
    async with connected() as (daemon, client):
        client.say(call)
        await client.answer("a")
        headers = daemon.seen[0][1]
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"] == "=?base64?bmHDr3Zl?="
    assert "mcp-session-id" not in headers


async def test_a_cancelled_request_is_hung_up_and_not_answered():
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        client.say({"jsonrpc": "2.0", "id": 7, "method": "slow"})
        await asyncio.wait_for(daemon.started.wait(), 5)
        client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        await asyncio.wait_for(daemon.hung_up.wait(), 5)
        client.say({"jsonrpc": "2.0", "id": 8, "method": "ping"})
        await client.answer(8)
    assert not any(message.get("id") == 7 for message in client.heard)


async def test_when_the_client_leaves_what_is_under_way_is_hung_up(monkeypatch):
    monkeypatch.setattr(bridge_module, "LAST_ANSWERS_SECONDS", 0.1)
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        client.say({"jsonrpc": "2.0", "id": 7, "method": "slow"})
        await asyncio.wait_for(daemon.started.wait(), 5)
        await client.leave()
        await asyncio.wait_for(daemon.hung_up.wait(), 5)
        client.lines.put_nowait(b"")


async def test_after_a_restart_of_the_daemon_the_session_is_opened_anew_once():
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        daemon.sessions.clear()
        client.say(*({"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(1, 5)))
        for number in range(1, 5):
            assert (await client.answer(number))["result"] == {"of": "ping"}
    assert daemon.opened == 2
    assert sum(message.get("id") == 0 for message in client.heard) == 1


async def test_a_wrong_key_is_an_error_with_the_daemons_words():
    async with connected("wrong") as (_, client):
        client.say(INITIALIZE)
        error = (await client.answer(0))["error"]
    assert error == {"code": -32000, "message": "The key is not known. Send the key. (unauthenticated)"}


@pytest.fixture
def nobody() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_without_a_daemon_requests_get_an_error_and_stderr_one_sentence(nobody):
    client = Client(nobody)
    client.say(INITIALIZE, INITIALIZED, {**INITIALIZE, "id": 1})
    errors = [(await client.answer(number))["error"] for number in (0, 1)]
    await client.leave()
    assert all("Start it with 'make up'" in error["message"] for error in errors)
    assert client.complaints == [f"code-executor: No daemon answers at {nobody}/mcp. Start it with 'make up'."]


async def test_a_stream_that_breaks_off_is_an_error_not_silence():
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        return response

    app = web.Application()
    app.router.add_post("/mcp", broken)
    async with serving(app) as url:
        client = Client(url)
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        error = (await client.answer(1))["error"]
        await client.leave()
    assert "without a result" in error["message"]


async def test_a_message_may_come_in_several_lines_of_data_and_in_any_chunks():
    async def in_pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        text = b'\xef\xbb\xbf: hello\r\rid: 1\rdata:{"jsonrpc":"2.0","id":1,\rdata:"result":{"text":"\xc3\xa9"}}\r\r'
        for byte in text:
            await response.write(bytes([byte]))
        return response

    app = web.Application()
    app.router.add_post("/mcp", in_pieces)
    async with serving(app) as url:
        client = Client(url)
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (await client.answer(1))["result"] == {"text": "é"}
        await client.leave()


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
async def test_an_answer_that_is_too_large_is_an_error_and_not_kept(monkeypatch, content_type):
    monkeypatch.setattr(bridge_module, "LARGEST_MESSAGE_BYTES", 1000)

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        await response.write(b'data: {"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * 2000)
        return response

    app = web.Application()
    app.router.add_post("/mcp", large)
    async with serving(app) as url:
        client = Client(url)
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert "larger than 1000 bytes" in (await client.answer(1))["error"]["message"]
        await client.leave()


async def test_an_answer_that_is_not_mcp_is_an_error_with_its_status():
    async def welcome(_: web.Request) -> web.Response:
        return web.Response(text="<html>", status=502, content_type="text/html")

    app = web.Application()
    app.router.add_post("/mcp", welcome)
    async with serving(app) as url:
        client = Client(url)
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert "HTTP status 502" in (await client.answer(1))["error"]["message"]
        await client.leave()


async def test_a_message_of_an_odd_form_does_not_end_the_bridge():
    async with connected() as (_, client):
        client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [7]})
        client.say(b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"n":1e999}}\n')
        assert "JSON cannot represent" in (await client.answer(5))["error"]["message"]
        client.say(INITIALIZE)
        assert "result" in await client.answer(0)


async def test_an_error_without_an_id_is_told_once():
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        daemon.error_without_id = True
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await client.answer(1)
        daemon.error_without_id = False
        client.say({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        await client.answer(2)
        assert [message["id"] for message in client.heard if "id" in message] == [0, 1, 2]


async def test_a_session_that_could_not_be_begun_anew_is_tried_again_with_the_next_request():
    async with connected() as (daemon, client):
        client.say(INITIALIZE)
        await client.answer(0)
        daemon.sessions.clear()
        daemon.refuses_initialize = True
        client.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert "error" in await client.answer(1)
        daemon.refuses_initialize = False
        client.say({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await client.answer(2))["result"] == {"of": "ping"}
