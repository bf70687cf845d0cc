"""Streamable HTTP: every message is a POST; the reply is JSON or an event stream."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any

import aiohttp

from orchestrator.upstreams.entries import HttpServer
from orchestrator.upstreams.faults import (
    ResultTooLarge,
    RpcError,
    SessionLost,
    TransportFailed,
)
from orchestrator.upstreams.framing import MESSAGE, EventStreamDecoder, Oversized
from orchestrator.upstreams.http_client import (
    EVENT_STREAM,
    JSON,
    Address,
    absorb,
    content_type,
    first_bytes,
    read_within,
    refusal,
    refuse_unless_plain,
)
from orchestrator.upstreams.jsonrpc import (
    NotJson,
    Params,
    decode,
    encode_answer,
    encode_notification,
    encode_request,
    is_reply,
    is_request,
    result_of,
)
from orchestrator.upstreams.transport import CANCELLED, INITIALIZE, LIST_CHANGED, Alerts, Chores, stop

_SESSION_HEADER = "Mcp-Session-Id"
_VERSION_HEADER = "MCP-Protocol-Version"
_COMPLAINT_BYTES = 4096
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_END_OF_STREAM_SECONDS = 0.005


class StreamableHttpTransport:
    def __init__(self, entry: HttpServer, http: aiohttp.ClientSession, alerts: Alerts, max_result_bytes: int) -> None:
        self._entry = entry
        self._address = Address(http, entry.url)
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._chores = Chores()
        self._session_id: str | None = None
        self._protocol_version: str | None = None
        self._modern = False
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        pass  # there is no connection but that of each message, kept alive by the pool

    def speak(self, protocol_version: str | None, *, modern: bool) -> None:
        self._protocol_version, self._modern = protocol_version, modern

    def listen(self, *, announced: bool) -> None:
        # Some servers tell of changes without having announced it, but without a session they cannot.
        wanted = announced or self._session_id is not None
        if wanted and (self._listener is None or self._listener.done()):
            self._listener = asyncio.create_task(self._follow_notifications())

    async def close(self) -> None:
        if self._listener is not None:
            await stop(self._listener)
        if self._session_id is not None:
            self._chores.start(self._end_session())
        await self._chores.finish()

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        request_id = next(self._ids)
        try:
            return await self._exchange(request_id, method, params)
        except asyncio.CancelledError:
            # Without a session nobody could tell whose request is meant; there the closed connection says it.
            if self._session_id is not None and method != INITIALIZE:
                self._chores.start(self.notify(CANCELLED, {"requestId": request_id, "reason": "no longer needed"}))
            raise

    async def notify(self, method: str, params: Params) -> None:
        await self._tell(encode_notification(method, params))

    async def _exchange(self, request_id: int, method: str, params: Params) -> Mapping[str, Any]:
        body = encode_request(request_id, method, params)
        headers = self._request_headers(method, params)
        async with self._address.send("POST", headers, body) as response:
            if method == INITIALIZE:
                self._session_id = response.headers.get(_SESSION_HEADER) if response.ok else None
            if not response.ok:
                raise await self._complaint(response, request_id)
            return result_of(await self._reply(response, request_id))

    def _request_headers(self, method: str, params: Params) -> dict[str, str]:
        if method == INITIALIZE:  # begins a session, so it belongs to none
            return {**self._entry.headers, "Accept": f"{JSON}, {EVENT_STREAM}", "Content-Type": JSON}
        return self._headers(f"{JSON}, {EVENT_STREAM}") | self._modern_headers(method, params)

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {**self._entry.headers, "Accept": accept, "Content-Type": JSON}
        if self._session_id is not None:
            headers[_SESSION_HEADER] = self._session_id
        if self._protocol_version is not None:
            headers[_VERSION_HEADER] = self._protocol_version
        return headers

    def _modern_headers(self, method: str, params: Params) -> dict[str, str]:
        if not self._modern:
            return {}
        name = params.get("name")
        printable = isinstance(name, str) and name.isascii() and name.isprintable()
        return {"Mcp-Method": method, **({"Mcp-Name": str(name)} if printable else {})}

    async def _complaint(self, response: aiohttp.ClientResponse, request_id: int) -> TransportFailed | RpcError:
        text = await first_bytes(response, _COMPLAINT_BYTES)
        lost = SessionLost("it has lost our session") if _SESSION_HEADER in response.request_info.headers else None
        if lost and response.status == 404:
            return lost
        if error := await _rpc_error_in(text, request_id):  # the answer to our request, whatever its words
            return error
        return lost if lost and response.status == 400 and b"session" in text.lower() else refusal(response)

    async def _reply(self, response: aiohttp.ClientResponse, request_id: int) -> Mapping[str, Any]:
        if content_type(response) == EVENT_STREAM:
            return await self._reply_in_stream(response, request_id)
        for message in await decode(await read_within(response, self._max_result_bytes)):
            if is_reply(message) and message.get("id") in (request_id, None):
                return message
        raise NotJson

    async def _reply_in_stream(self, response: aiohttp.ClientResponse, request_id: int) -> Mapping[str, Any]:
        async with aclosing(self._messages(response)) as messages:
            async for message in messages:
                if is_reply(message) and message.get("id") in (request_id, None):
                    await self._hear_out(messages)
                    return message
                self._hear(message)
        raise TransportFailed("its event stream ended without the answer")

    async def _hear_out(self, messages: AsyncIterator[Mapping[str, Any]]) -> None:
        """A stream that is left before its end, which follows the answer closely, costs its connection."""
        with suppress(TimeoutError, TransportFailed, ResultTooLarge, aiohttp.ClientError):
            async with asyncio.timeout(_END_OF_STREAM_SECONDS):
                async for message in messages:
                    self._hear(message)

    async def _messages(self, response: aiohttp.ClientResponse) -> AsyncGenerator[Mapping[str, Any], None]:
        refuse_unless_plain(response)
        events = EventStreamDecoder(self._max_result_bytes)
        async for chunk in response.content.iter_any():
            for event in events.feed(chunk):
                if isinstance(event, Oversized):
                    raise ResultTooLarge(self._max_result_bytes)
                if event.kind == MESSAGE:
                    for message in await decode(event.data):
                        yield message
            if events.overflowing:
                raise ResultTooLarge(self._max_result_bytes)

    def _hear(self, message: Mapping[str, Any]) -> None:
        if is_request(message):
            self._chores.start_unless_many(lambda: self._tell(encode_answer(message)))
        elif message.get("method") == LIST_CHANGED:
            self._alerts.relist()

    async def _tell(self, body: bytes) -> None:
        async with self._address.send("POST", self._headers(f"{JSON}, {EVENT_STREAM}"), body) as response:
            await absorb(response)
            if not response.ok:
                raise refusal(response)

    async def _end_session(self) -> None:
        async with self._address.send("DELETE", self._headers(JSON)):
            pass

    async def _follow_notifications(self) -> None:
        """As long as the server offers the stream. Its end may be the server's end, so the tools are listed again."""
        pause = _FIRST_PAUSE_SECONDS
        while await self._heard_a_stream():
            self._alerts.relist()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _heard_a_stream(self) -> bool:
        try:
            async with self._address.send("GET", self._headers(EVENT_STREAM)) as response:
                if response.status != 200 or content_type(response) != EVENT_STREAM:
                    return False
                async for message in self._messages(response):
                    self._hear(message)
        except (TransportFailed, ResultTooLarge):
            pass
        return True


async def _rpc_error_in(text: bytes, request_id: int) -> RpcError | None:
    """Some servers say no with a status and a JSON-RPC error in its body."""
    try:
        for message in await decode(text):
            if is_reply(message) and message.get("id") == request_id:
                result_of(message)
    except RpcError as error:
        return error
    except TransportFailed:
        pass
    return None
