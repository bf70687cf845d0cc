"""MCP on stdin and stdout, passed on to the running daemon: each line is a message, each message a POST to /mcp.

Nothing but JSON-RPC is ever written to stdout. The bridge knows of the protocol only what a transport must: how a
session begins and is lost, and how a request is cancelled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

import aiohttp

from orchestrator.upstreams.endpoint import SESSION_HEADER, Endpoint
from orchestrator.upstreams.faults import NotEncodable, NotJson, ResultTooLarge, TransportFailed, Unreachable
from orchestrator.upstreams.http_client import http_client, messages_in
from orchestrator.upstreams.jsonrpc import CANCELLED, INITIALIZE, INITIALIZED, Message, encode

WriteLine = Callable[[str], None]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
SERVER_ERROR = -32000
# After stdin has ended, what is under way gets this long: a script that pipes its requests in still gets its answers,
# and a client that died does not keep a sandbox.
LAST_ANSWERS_SECONDS = 1.0
LARGEST_MESSAGE_BYTES = 64 * 1024 * 1024  # pictures included
CONNECT_SECONDS = 5
SILENCE_SECONDS = 120


class DaemonDown(Exception):
    """The daemon cannot be reached, or not to the end of its answer."""


class Refused(Exception):
    """The daemon answered, but not as MCP."""


class SessionUnknown(Exception):
    """The daemon does not know the session: it was restarted, or the session was idle for long."""


class Bridge:
    def __init__(self, url: str, key: str, write: WriteLine, complain: WriteLine) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._key = key
        self._write = write
        self._complain = complain
        self._endpoint: Endpoint  # while it runs
        self._initialize: Message | None = None
        # Protects the session: after the daemon's restart, many requests find it lost at the same time.
        self._reopening = asyncio.Lock()
        self._requests: dict[str | int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._complained = False

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Pass on every line until there are no more, then wait briefly for the last answers and end the session."""
        async with http_client(connect_seconds=CONNECT_SECONDS, silence_seconds=SILENCE_SECONDS) as http:
            self._endpoint = Endpoint(http, self._url, {"Authorization": f"Bearer {self._key}"})
            async for line in lines:
                if line.strip():
                    self._take(line)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=LAST_ANSWERS_SECONDS)
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            if self._endpoint.session_id is not None:
                with suppress(TransportFailed):
                    await self._endpoint.end_session()

    def _take(self, line: bytes) -> None:
        """Start passing on one message, or cancel the one that it tells to cancel."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send_error(None, PARSE_ERROR, "The line is not JSON. Send one JSON object per line.")
            return
        if not isinstance(message, dict):
            self._send_error(None, INVALID_REQUEST, "A message must be one JSON object.")
            return
        request_id, params = message.get("id"), message.get("params")
        if message.get("method") == CANCELLED:
            # Hang up: to the daemon that is a cancelled request, in either era, and it cannot overtake the request.
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(cancelled, str | int) and (task := self._requests.get(cancelled)):
                task.cancel()
            return
        task = asyncio.create_task(self._pass_on(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(request_id, str | int) and "method" in message:
            self._requests[request_id] = task
            task.add_done_callback(lambda _: self._requests.pop(request_id, None))

    async def _pass_on(self, message: Message) -> None:
        """Have a message answered, in a new session if the daemon has lost the old one, or answer why it cannot be."""
        used = self._endpoint.session_id
        try:
            try:
                await self._exchange(message)
            except SessionUnknown:  # said before the message was looked at, so sending it again does nothing twice
                await self._reopen(lost=used)
                await self._exchange(message)
        except (DaemonDown, Refused, SessionUnknown, NotEncodable) as error:
            if isinstance(error, DaemonDown) and not self._complained:
                self._complained = True
                self._complain(f"code-executor: {error}")
            if message.get("id") is not None:
                self._send_error(message["id"], SERVER_ERROR, str(error))
        else:
            self._complained = False

    async def _reopen(self, lost: str | None) -> None:
        """Begin a session with the client's own greeting, unless another request has done so meanwhile."""
        async with self._reopening:
            if self._endpoint.session_id != lost:
                return
            if self._initialize is None:
                raise SessionUnknown("The daemon does not know this session. Send an initialize request first.")
            self._endpoint.session_id = None
            try:
                await self._exchange(self._initialize, quiet=True)
            finally:
                self._endpoint.session_id = self._endpoint.session_id or lost  # so that the next request tries it again
            await self._exchange(INITIALIZED)

    async def _exchange(self, message: Message, *, quiet: bool = False) -> None:
        """Post a message and write what comes back to stdout, unless it is to be quiet."""
        try:
            async with self._endpoint.post(message) as response:
                answered = await self._relay(message, response, quiet=quiet)
        except Unreachable as error:
            raise DaemonDown(f"No daemon answers at {self._url}. Start it with 'make up'.") from error
        except NotJson as error:
            raise Refused(f"The daemon answered with HTTP status {response.status} and no MCP message.") from error
        except ResultTooLarge as error:
            raise Refused(f"The daemon's answer is larger than {error.max_bytes} bytes. Ask for less.") from error
        except TransportFailed as error:
            raise DaemonDown(f"The connection to the daemon at {self._url} broke before it answered.") from error
        if message.get("id") is not None and "method" in message and not answered:
            raise Refused("The daemon ended its answer without a result. Run the request again.")

    async def _relay(self, message: Message, response: aiohttp.ClientResponse, *, quiet: bool) -> bool:
        """Write the messages of a response; return whether one of them has an id."""
        begins_session, answered = message.get("method") == INITIALIZE, False
        if response.status == 404 and SESSION_HEADER in response.request_info.headers:
            raise SessionUnknown("The daemon does not know this session.")
        if begins_session and response.status == 200:
            self._initialize, self._endpoint.session_id = message, response.headers.get(SESSION_HEADER)
        async with aclosing(messages_in(response, LARGEST_MESSAGE_BYTES)) as replies:
            async for reply in replies:
                if "jsonrpc" not in reply:
                    raise Refused(problem_text(response.status, reply))
                if begins_session and isinstance(result := reply.get("result"), dict):
                    version = result.get("protocolVersion")
                    self._endpoint.version = version if isinstance(version, str) else None
                # An error that was found before the request was read has no id; on stdout it needs one.
                lacks_id = "error" in reply and reply.get("id") is None
                told = {**reply, "id": message.get("id")} if lacks_id else reply
                answered = answered or told.get("id") is not None
                if not quiet:
                    self._write(encode(told).decode())
        return answered

    def _send_error(self, request_id: Any, code: int, text: str) -> None:
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
        self._write(encode(error).decode())


def problem_text(status: int, problem: Message) -> str:
    if "detail" not in problem:
        return f"The daemon answered with HTTP status {status}."
    return f"{problem['detail']} {problem.get('hint', '')} ({problem.get('code', status)})"
