"""The transport before streamable HTTP: one event stream with all replies; messages are POSTed to where it says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from orchestrator.upstreams.entries import HttpServer
from orchestrator.upstreams.faults import TransportFailed
from orchestrator.upstreams.framing import MESSAGE, Event, EventStreamDecoder, Oversized
from orchestrator.upstreams.http_client import (
    EVENT_STREAM,
    JSON,
    Address,
    absorb,
    content_type,
    refusal,
    refuse_unless_plain,
)
from orchestrator.upstreams.jsonrpc import NotJson, Params
from orchestrator.upstreams.transport import Alerts, Conversation, stop


class LegacySseTransport:
    def __init__(self, entry: HttpServer, http: aiohttp.ClientSession, alerts: Alerts, max_result_bytes: int) -> None:
        self._http = http
        self._headers = dict(entry.headers)
        self._stream_address = Address(http, entry.url)
        self._max_result_bytes = max_result_bytes
        self._conversation = Conversation(self._send, alerts, max_result_bytes)
        self._message_address: Address | None = None
        self._ready: asyncio.Future[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._ready = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(self._ready))
        await self._ready

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        return await self._conversation.request(method, params)

    async def notify(self, method: str, params: Params) -> None:
        await self._conversation.notify(method, params)

    def speak(self, protocol_version: str | None, *, modern: bool) -> None:
        if protocol_version is not None:
            self._headers["MCP-Protocol-Version"] = protocol_version

    def listen(self, *, announced: bool) -> None:
        pass  # notifications come on the one stream anyway

    async def close(self) -> None:
        await self._conversation.close()
        if self._reader is not None:
            await stop(self._reader)

    async def _send(self, message: bytes) -> None:
        if self._message_address is None:
            raise TransportFailed("it has not said where to send messages")
        headers = {**self._headers, "Accept": JSON, "Content-Type": JSON}
        async with self._message_address.send("POST", headers, message) as response:
            await absorb(response)
            if not response.ok:
                raise refusal(response)

    async def _read(self, ready: asyncio.Future[None]) -> None:
        failure = TransportFailed("its event stream ended")
        try:
            await self._follow_stream(ready)
        except TransportFailed as error:
            failure = error
        if ready.done():
            self._conversation.end(failure)
        else:
            ready.set_exception(failure)

    async def _follow_stream(self, ready: asyncio.Future[None]) -> None:
        async with self._stream_address.send("GET", {**self._headers, "Accept": EVENT_STREAM}) as response:
            if response.status != 200:
                raise refusal(response)
            if content_type(response) != EVENT_STREAM:
                raise TransportFailed("its address offers no event stream; check its type in servers.json")
            refuse_unless_plain(response)
            events = EventStreamDecoder(self._max_result_bytes)
            async for chunk in response.content.iter_any():
                for event in events.feed(chunk):
                    await self._take(event, ready)

    async def _take(self, event: Event | Oversized, ready: asyncio.Future[None]) -> None:
        if isinstance(event, Oversized):
            self._conversation.refuse_oversized(event)
        elif event.kind == "endpoint":
            self._learn_address(event.data.decode("utf-8", "replace"), ready)
        elif event.kind == MESSAGE:
            await self._receive(event.data)

    def _learn_address(self, target: str, ready: asyncio.Future[None]) -> None:
        try:
            url = self._stream_address.url.join(URL(target))
        except ValueError:
            raise TransportFailed("it names an unusable address for messages") from None
        self._message_address = Address(self._http, str(self._stream_address.trusted(url)))
        if not ready.done():
            ready.set_result(None)

    async def _receive(self, data: bytes) -> None:
        try:
            await self._conversation.receive(data)
        except NotJson:
            raise TransportFailed("its event stream carries something that is not JSON-RPC") from None
