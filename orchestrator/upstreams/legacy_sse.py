"""The transport before streamable HTTP: one event stream with all replies; messages are POSTed to where it says."""

from __future__ import annotations

import asyncio

import aiohttp

from orchestrator.upstreams.endpoint import VERSION_HEADER
from orchestrator.upstreams.entries import HttpServer
from orchestrator.upstreams.faults import HttpRefused, NotJson, Severed, TransportFailed
from orchestrator.upstreams.framing import Oversized, stretches
from orchestrator.upstreams.http_client import JSON, Address, content_type, require_acceptance, require_plain
from orchestrator.upstreams.sse import EVENT_STREAM, MESSAGE, Event, EventParser
from orchestrator.upstreams.transport import Alerts, StreamTransport, stop

_STATUSES_OF_NO_SESSION = {400, 404}


class LegacySseTransport(StreamTransport):
    def __init__(self, entry: HttpServer, http: aiohttp.ClientSession, alerts: Alerts, max_result_bytes: int) -> None:
        super().__init__(alerts, max_result_bytes)
        self._headers = dict(entry.headers)
        self._stream_address = Address(http, entry.url)
        self._message_address: Address | None = None
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the stream and wait until it has said where to send messages."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(ready))
        await ready

    def speak(self, protocol_version: str | None) -> None:
        if protocol_version is not None:
            self._headers[VERSION_HEADER] = protocol_version

    async def close(self) -> None:
        await super().close()
        if self._reader is not None:
            await stop(self._reader)

    async def _send(self, message: bytes) -> None:
        if self._message_address is None:
            raise TransportFailed("it has not said where to send messages")
        headers = {**self._headers, "Accept": JSON, "Content-Type": JSON}
        async with self._message_address.send("POST", headers, message) as response:
            if response.status in _STATUSES_OF_NO_SESSION:
                raise Severed("it has lost our session")
            await require_acceptance(response)

    async def _read(self, ready: asyncio.Future[None]) -> None:
        """Follow the stream to its end, which fails the opening or, after it, whatever waits for a reply."""
        failure = TransportFailed("its event stream ended")
        try:
            async with self._stream_address.send("GET", {**self._headers, "Accept": EVENT_STREAM}) as response:
                if response.status != 200:
                    raise HttpRefused(response.status)
                if content_type(response) != EVENT_STREAM:
                    raise TransportFailed("its address offers no event stream. Check its type in servers.json")
                require_plain(response)
                events = EventParser(self._max_result_bytes)
                async for chunk in response.content.iter_any():
                    for stretch in stretches(chunk):
                        for event in events.feed(stretch):
                            await self._take(event, ready)
                        await self._pace.after(stretch)
        except TransportFailed as error:
            failure = error
        if ready.done():
            self._end(failure)
        else:
            ready.set_exception(failure)

    async def _take(self, event: Event | Oversized, ready: asyncio.Future[None]) -> None:
        """Learn from an event where to send messages, or take in the message that it carries."""
        if isinstance(event, Event) and event.kind == "endpoint":
            self._message_address = self._stream_address.beside(event.data.decode("utf-8", "replace"))
            if not ready.done():
                ready.set_result(None)
        elif isinstance(event, Oversized) or event.kind == MESSAGE:
            try:
                await self._receive(event if isinstance(event, Oversized) else event.data)
            except NotJson:
                raise TransportFailed("its event stream carries something that is not JSON-RPC") from None
