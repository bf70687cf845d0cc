"""Upstream servers that do as they are told: a proxy in the manner of TBXark/mcp-proxy, and a server with sessions."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Behaviour = Callable[[web.Request, Json], Awaitable[web.StreamResponse]]


def tool(name: str, **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def reply(message: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def error(message: Json, code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}


@asynccontextmanager
async def serving(app: web.Application, port: int = 0) -> AsyncIterator[str]:
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# What a tool may do instead of answering.


async def malformed(_: web.Request, __: Json) -> web.StreamResponse:
    return web.Response(text='{"jsonrpc": "2.0", "id": 1, "result": {', content_type="application/json")


async def nonsense(_: web.Request, __: Json) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def resets(request: web.Request, _: Json) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "5000"})
    await response.prepare(request)
    await response.write(b'{"jsonrpc":')
    assert request.transport is not None
    request.transport.abort()
    return response


@dataclass
class Slow:
    """Answers when it is let go, and knows whether it was given up."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: web.Request, message: Json) -> web.StreamResponse:
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return web.json_response(reply(message, text_result("at last")))


@dataclass
class Huge:
    """Counts what it could send before the reader hung up."""

    size: int
    declared: bool = False
    streamed: bool = False
    sent: int = 0

    async def __call__(self, request: web.Request, message: Json) -> web.StreamResponse:
        head = json.dumps(reply(message, {})).removesuffix("}}").encode() + b'"content":[{"type":"text","text":"'
        tail = b'"}]}}'
        kind = "text/event-stream" if self.streamed else "application/json"
        response = web.StreamResponse(headers={"Content-Type": kind})
        if self.declared:
            response.content_length = len(head) + self.size + len(tail)
        await response.prepare(request)
        try:
            await response.write(b"data: " + head if self.streamed else head)
            while self.sent < self.size:
                await response.write(b"x" * 65536)
                self.sent += 65536
            await response.write(tail + b"\n\n" if self.streamed else tail)
        except (ConnectionError, asyncio.CancelledError):
            pass
        return response


class Sized:
    """Answers with as many bytes as it is asked for, in a result that is text, rows, or whatever the pattern says."""

    def __init__(self, *, declared: bool = True, streamed: bool = False) -> None:
        self.declared = declared
        self.streamed = streamed
        self.under_way = 0
        self.most_under_way = 0
        self.answered = 0
        self.given_up = 0
        self.sent = 0

    async def __call__(self, request: web.Request, message: Json) -> web.StreamResponse:
        wanted = message["params"]["arguments"]
        item = str(wanted.get("item", "x")).encode()
        opening, closing = (b"[", b"0]") if wanted.get("structured") else (b'"', b'"')
        member = b'"structuredContent"' if wanted.get("structured") else b'"content":[{"type":"text","text"'
        head = json.dumps(reply(message, {})).removesuffix("}}").encode() + member + b":" + opening
        tail = closing + (b"}}" if wanted.get("structured") else b"}]}}")
        count = wanted["bytes"] // len(item)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream" if self.streamed else "application/json"}
        )
        if self.declared and not self.streamed:
            response.content_length = len(head) + count * len(item) + len(tail)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await response.prepare(request)
            await response.write(b"data: " + head if self.streamed else head)
            piece = item * max(1, 65536 // len(item))
            while count > 0:
                part = piece[: count * len(item)]
                await response.write(part)
                self.sent += len(part)
                count -= len(part) // len(item)
            await response.write(tail + b"\n\n" if self.streamed else tail)
            self.answered += 1
        except (ConnectionError, asyncio.CancelledError):
            self.given_up += 1
        finally:
            self.under_way -= 1
        return response


class Hoarding:
    """Keeps what it is given until it is let go, and knows how much that was."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.calls = 0
        self.bytes = 0
        self.most_bytes = 0

    async def __call__(self, request: web.Request, message: Json) -> web.StreamResponse:
        size = request.content_length or 0
        self.calls += 1
        self.bytes += size
        self.most_bytes = max(self.bytes, self.most_bytes)
        try:
            await self.go.wait()
        finally:
            self.calls -= 1
            self.bytes -= size
        return web.json_response(reply(message, text_result("at last")))


class ScriptedProxy:
    """Stateless; lists each backend's tools from a cache; never notices that one has died."""

    def __init__(self, *names: str, token: str | None = None, knows_initialize: bool = True) -> None:
        self.token = token
        self.knows_initialize = knows_initialize
        self.tools: dict[str, list[Any]] = {name: [tool("echo"), tool("fail")] for name in names}
        self.failed: set[str] = set()
        self.dead: set[str] = set()
        self.behaviours: dict[str, Behaviour] = {}
        self.on_list: Behaviour | None = None
        self.seen: list[tuple[str, str]] = []
        self.connections: set[Any] = set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/{name}", self._redirect)
        app.router.add_route("*", "/{name}/{rest:.*}", self._serve)
        return app

    def count(self, method: str) -> int:
        return sum(1 for seen, _ in self.seen if seen == method)

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=301, headers={"Location": request.path + "/"})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Unauthorized\n")
        if name not in self.tools or name in self.failed:
            return web.Response(status=404, text="404 page not found\n")
        if request.method != "POST":
            return web.Response(status=405, text="Method Not Allowed\n")
        self.connections.add(request.transport)
        message = await request.json()
        self.seen.append((message["method"], name))
        if "id" not in message:
            return web.Response(status=202)
        return await self._answer(request, name, message)

    async def _answer(self, request: web.Request, name: str, message: Json) -> web.StreamResponse:
        match message["method"]:
            case "initialize" if self.knows_initialize:
                agreed = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}}
                return web.json_response(reply(message, agreed))
            case "tools/list" if self.on_list is not None:
                return await self.on_list(request, message)
            case "tools/list":
                tools = [{**item, "annotations": {}} if isinstance(item, dict) else item for item in self.tools[name]]
                return web.json_response(reply(message, {"tools": tools}))
            case "tools/call":
                return await self._call(request, name, message)
            case _:
                return web.json_response(error(message, -32601, "Method not found"))

    async def _call(self, request: web.Request, name: str, message: Json) -> web.StreamResponse:
        called = message["params"]["name"]
        if called not in [item["name"] for item in self.tools[name] if isinstance(item, dict)]:
            return web.json_response(error(message, -32602, f"tool '{called}' not found: tool not found"))
        if name in self.dead:
            return web.json_response(error(message, -32603, "transport error: transport closed"))
        if called in self.behaviours:
            return await self.behaviours[called](request, message)
        if called == "fail":
            return web.json_response(error(message, -32603, 'relation "nope" does not exist'))
        return web.json_response(reply(message, text_result(json.dumps(message["params"]["arguments"]))))


class SessionServer:
    """Streamable HTTP with sessions, replies as event streams, and a stream of notifications."""

    def __init__(self) -> None:
        self.tools = [tool("echo")]
        self.page_size = 1000
        self.sessions: set[str] = set()
        self.begun = 0
        self.calls = 0
        self.status_of_lost_session = 404
        self.slow = Slow()
        self.counters: Counter[str] = Counter()  # of each session
        self.greeting: asyncio.Event | None = None  # what the answer to a greeting waits for
        self.ended: list[str] = []
        self.cancelled = asyncio.Event()
        self.answers: asyncio.Queue[Json] = asyncio.Queue()
        self.listeners: list[web.StreamResponse] = []
        self.versions: list[str | None] = []
        self.ahead = b""  # of every answer
        self.connections: set[Any] = set()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self._post)
        app.router.add_get("/mcp", self._get)
        app.router.add_delete("/mcp", self._delete)
        return app

    async def announce_change(self) -> None:
        for listener in self.listeners:
            await listener.write(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        self.connections.add(request.transport)
        if message.get("method") == "initialize":
            return await self._begin(request, message)
        if request.headers.get("Mcp-Session-Id") not in self.sessions:
            refusal = error({"id": "server-error"}, -32600, "Session not found")
            return web.json_response(refusal, status=self.status_of_lost_session)
        self.versions.append(request.headers.get("MCP-Protocol-Version"))
        if "method" not in message:
            self.answers.put_nowait(message)
        if message.get("method") == "notifications/cancelled":
            self.cancelled.set()
        if "method" not in message or "id" not in message:
            return web.Response(status=202)
        return await self._answer(request, message)

    async def _begin(self, request: web.Request, message: Json) -> web.StreamResponse:
        self.begun += 1
        if self.greeting is not None:
            await self.greeting.wait()
        session = secrets.token_hex(8)
        self.sessions.add(session)
        agreed = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}}
        return await self._stream(request, reply(message, agreed), headers={"Mcp-Session-Id": session})

    async def _answer(self, request: web.Request, message: Json) -> web.StreamResponse:
        if message["method"] == "tools/list":
            return await self._stream(request, reply(message, self._page(message)))
        called = message["params"]["name"]
        self.calls += 1
        if called == "slow":
            return await self.slow(request, message)
        if called == "count":
            session = request.headers["Mcp-Session-Id"]
            self.counters[session] += 1
            return web.json_response(reply(message, text_result(str(self.counters[session]))))
        if called == "browser":
            return web.json_response(error(message, -32000, "the browser session is closed"), status=400)
        ahead = []
        if called == "asks":
            ahead = [
                {"jsonrpc": "2.0", "id": "a", "method": "ping"},
                {"jsonrpc": "2.0", "id": "b", "method": "roots/list"},
            ]
        if called == "pesters":
            ahead = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(500)]
        if called == "changes":
            ahead = [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
        return await self._stream(request, *ahead, reply(message, text_result(called)))

    def _page(self, message: Json) -> Json:
        start = int(message["params"].get("cursor", "0"))
        end = start + self.page_size
        more = {"nextCursor": str(end)} if end < len(self.tools) else {}
        return {"tools": self.tools[start:end], **more}

    async def _stream(self, request: web.Request, *messages: Json, headers: Any = None) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **(headers or {})})
        await response.prepare(request)
        await response.write(b": hello\r\n\r\n" + self.ahead)
        for message in messages:
            await response.write(b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n")
        for _ in range(10):  # so that the answer is read before the end of the stream is sent
            await asyncio.sleep(0)
        return response

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Mcp-Session-Id") not in self.sessions:
            return web.Response(status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.listeners.append(response)
        try:
            await asyncio.Event().wait()
        finally:
            self.listeners.remove(response)
        return response

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        self.sessions.discard(request.headers.get("Mcp-Session-Id", ""))
        self.ended.append(request.headers.get("Mcp-Session-Id", ""))
        return web.Response(status=200)


class SseProxy:
    """TBXark/mcp-proxy with its default type: each server has an event stream of its own for every session."""

    def __init__(self, *names: str, token: str | None = None) -> None:
        self.token = token
        self.tools: dict[str, list[Any]] = {name: [tool("echo"), tool("count")] for name in names}
        self.sessions: dict[str, web.StreamResponse] = {}
        self.drops: dict[str, asyncio.Event] = {}
        self.forgotten: set[str] = set()
        self.counters: Counter[str] = Counter()
        self.begun = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{name}/sse", self._get)
        app.router.add_post("/{name}/message", self._post)
        return app

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Unauthorized\n")
        if request.match_info["name"] not in self.tools:
            return web.Response(status=404, text="404 page not found\n")
        return None

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        self.begun += 1
        session, name = secrets.token_hex(8), request.match_info["name"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        # The whole address, as it is with a baseURL.
        address = f"{request.url.origin()}/{name}/message?sessionId={session}"
        await response.write(f"event: endpoint\ndata: {address}\r\n\r\n".encode())
        self.sessions[session], self.drops[session] = response, asyncio.Event()
        try:
            await self.drops[session].wait()
        finally:
            del self.sessions[session]
        return response

    async def _post(self, request: web.Request) -> web.StreamResponse:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        session, message = request.query.get("sessionId", ""), await request.json()
        if session not in self.sessions or session in self.forgotten:
            return web.json_response(error({"id": None}, -32602, "Invalid session ID"), status=400)
        result = self._result(request.match_info["name"], session, message)
        if result is not None:
            event = b"event: message\ndata: " + json.dumps(reply(message, result)).encode() + b"\n\n"
            await self.sessions[session].write(event)
        return web.Response(status=202)

    def _result(self, name: str, session: str, message: Json) -> Json | None:
        match message.get("method"):
            case "initialize":
                return {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
            case "tools/list":
                return {"tools": self.tools[name]}
            case "tools/call" if message["params"]["name"] == "count":
                self.counters[session] += 1
                return text_result(str(self.counters[session]))
            case "tools/call":
                return text_result(json.dumps(message["params"]["arguments"]))
        return None


class LegacySseServer:
    """One event stream with every reply; messages go to the address that it names first."""

    def __init__(self) -> None:
        self.tools = [tool("echo")]
        self.endpoint = "/messages?session=1"
        self.streams: list[web.StreamResponse] = []
        self.drop = asyncio.Event()
        self.huge_bytes = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/sse", self._get)
        app.router.add_post("/messages", self._post)
        return app

    async def send(self, message: Json) -> None:
        await self.streams[-1].write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    async def _get(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.streams.append(response)
        await response.write(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        await self.drop.wait()
        return response

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        match message.get("method"):
            case "initialize":
                agreed = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {"listChanged": True}}}
                await self.send(reply(message, agreed))
            case "tools/list":
                await self.send(reply(message, {"tools": self.tools}))
            case "tools/call":
                arguments = message["params"]["arguments"]
                text = "x" * self.huge_bytes if self.huge_bytes else json.dumps(arguments)
                await self.send(reply(message, text_result(text)))
        return web.Response(status=202, text="Accepted")
