"""MCP on stdin and stdout, passed on to the running daemon: each line is a message, each message a POST to /mcp.

Nothing but JSON-RPC is ever written to stdout. The bridge knows of the protocol only what a transport must: sessions
and cancellation in the era that begins with initialize, and the headers of the one that does without.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp

Json = dict[str, Any]
WriteLine = Callable[[str], None]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
SERVER_ERROR = -32000
VERSION_IN_META = "io.modelcontextprotocol/protocolVersion"
NAME_OF_METHOD = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ACCEPT = "application/json, text/event-stream"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
# After stdin has ended, what is under way gets this long: a script that pipes its requests in still gets its answers,
# and a client that died does not keep a sandbox.
LAST_ANSWERS_SECONDS = 1.0
# One line of an event stream may be a whole reply, pictures included.
LARGEST_LINE_BYTES = 64 * 1024 * 1024
SILENCE_SECONDS = 120


class DaemonDown(Exception):
    """The message is one sentence and what to do next."""


class Refused(Exception):
    """The daemon answered, but not as MCP."""


class SessionLost(Exception):
    """The daemon does not know the session: it was started anew, or the session was idle for long."""


class Bridge:
    def __init__(self, url: str, key: str, write: WriteLine, complain: WriteLine) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._key = key
        self._write = write
        self._complain = complain
        self._session_id: str | None = None
        self._version: str | None = None
        self._initialize: Json | None = None
        # Protects the session: after the daemon's restart, many requests find it lost at the same time.
        self._reopening = asyncio.Lock()
        self._requests: dict[str | int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._complained = False

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        headers = {"Authorization": f"Bearer {self._key}", "Accept": ACCEPT, "Content-Type": "application/json"}
        patience = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE_SECONDS)
        many = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            headers=headers, timeout=patience, connector=many, read_bufsize=LARGEST_LINE_BYTES
        ) as http:
            async for line in lines:
                self._take(http, line)
            await self._finish(http)

    def _take(self, http: aiohttp.ClientSession, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send(_error(None, PARSE_ERROR, "The line is not JSON."))
            return
        if not isinstance(message, dict):
            self._send(_error(None, INVALID_REQUEST, "A message is one JSON object."))
        elif message.get("method") == "notifications/cancelled":
            self._cancel((message.get("params") or {}).get("requestId"))
        else:
            self._start(http, message)

    def _start(self, http: aiohttp.ClientSession, message: Json) -> None:
        task = asyncio.create_task(self._pass_on(http, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(request_id := message.get("id"), str | int) and "method" in message:
            self._requests[request_id] = task
            task.add_done_callback(lambda _: self._requests.pop(request_id, None))

    def _cancel(self, request_id: object) -> None:
        """Hangs up: to the daemon that is a cancelled request, in either era, and it cannot overtake the request."""
        if isinstance(request_id, str | int) and (task := self._requests.get(request_id)):
            task.cancel()

    async def _pass_on(self, http: aiohttp.ClientSession, message: Json) -> None:
        try:
            await self._exchange_in_session(http, message)
        except (DaemonDown, Refused, SessionLost) as error:
            if isinstance(error, DaemonDown) and not self._complained:
                self._complained = True
                self._complain(f"code-executor: {error}")
            if message.get("id") is not None:
                self._send(_error(message["id"], SERVER_ERROR, str(error)))
        else:
            self._complained = False

    async def _exchange_in_session(self, http: aiohttp.ClientSession, message: Json) -> None:
        used = self._session_id
        try:
            await self._exchange(http, message)
        except SessionLost:
            await self._reopen(http, used)
            await self._exchange(http, message)

    async def _reopen(self, http: aiohttp.ClientSession, lost: str | None) -> None:
        async with self._reopening:
            if self._session_id != lost:
                return
            if self._initialize is None:
                raise SessionLost("The daemon does not know this session; initialize first.")
            self._session_id = None
            try:
                await self._exchange(http, self._initialize, quiet=True)
            finally:
                self._session_id = self._session_id or lost  # so that the next request tries it again
            await self._exchange(http, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def _exchange(self, http: aiohttp.ClientSession, message: Json, *, quiet: bool = False) -> None:
        try:
            async with http.post(self._url, json=message, headers=self._headers(message)) as response:
                self._note(message, response)
                await self._relay(message, response, quiet=quiet)
        except aiohttp.ClientConnectorError as error:
            raise DaemonDown(f"No daemon answers at {self._url}; start it with 'make up'.") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DaemonDown(f"The connection to the daemon at {self._url} broke before it answered.") from error

    async def _relay(self, message: Json, response: aiohttp.ClientResponse, *, quiet: bool) -> None:
        if response.status == 404 and SESSION_HEADER in response.request_info.headers:
            raise SessionLost("The daemon does not know this session.")
        answered = False
        async for reply in _messages(response):
            told = _with_id(reply, message)
            answered = answered or told.get("id") is not None
            self._learn(message, reply)
            if not quiet:
                self._send(told)
        if message.get("id") is not None and "method" in message and not answered:
            raise Refused("The daemon ended its answer without a result; run the request again.")

    def _headers(self, message: Json) -> dict[str, str]:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(VERSION_IN_META) if isinstance(meta, dict) else None
        if isinstance(version, str):
            return _headers_without_session(version, message)
        if message.get("method") == "initialize":
            return {}
        known = {SESSION_HEADER: self._session_id, VERSION_HEADER: self._version}
        return {name: value for name, value in known.items() if value}

    def _note(self, message: Json, response: aiohttp.ClientResponse) -> None:
        if message.get("method") == "initialize" and response.status == 200:
            self._initialize = message
            self._session_id = response.headers.get(SESSION_HEADER)

    def _learn(self, message: Json, reply: Json) -> None:
        if message.get("method") == "initialize" and isinstance(result := reply.get("result"), dict):
            self._version = result.get("protocolVersion")

    def _send(self, message: Json) -> None:
        self._write(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    async def _finish(self, http: aiohttp.ClientSession) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_ANSWERS_SECONDS)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._session_id is not None:
            with suppress(aiohttp.ClientError, TimeoutError):
                await http.delete(self._url, headers={SESSION_HEADER: self._session_id})


async def _messages(response: aiohttp.ClientResponse) -> AsyncIterator[Json]:
    if response.status == 202:
        return
    if response.content_type == "text/event-stream":
        async for line in response.content:
            if line.startswith(b"data:") and (data := line[5:].strip()):
                yield json.loads(data)
        return
    answer = await _json_of(response)
    if "jsonrpc" not in answer:
        raise Refused(_problem_text(response.status, answer))
    yield answer


async def _json_of(response: aiohttp.ClientResponse) -> Json:
    try:
        answer = json.loads(await response.read())
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {}


def _problem_text(status: int, problem: Json) -> str:
    if "detail" not in problem:
        return f"The daemon answered with HTTP status {status}."
    return f"{problem['detail']} {problem.get('hint', '')} ({problem.get('code', status)})"


def _with_id(reply: Json, message: Json) -> Json:
    """An error that was found before the request was read has no id; over HTTP that is no matter, here it would be."""
    return {**reply, "id": message.get("id")} if "error" in reply and reply.get("id") is None else reply


def _headers_without_session(version: str, message: Json) -> dict[str, str]:
    method = str(message.get("method", ""))
    headers = {VERSION_HEADER: version, "Mcp-Method": method}
    name = (message.get("params") or {}).get(NAME_OF_METHOD.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = _header_value(name)
    return headers


def _header_value(text: str) -> str:
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode(errors='replace')).decode()}?="


def _error(request_id: str | int | None, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
