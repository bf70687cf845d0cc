"""One connection to the API: what is sent on it is counted and timed before aiohttp sees it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from orchestrator.domain.errors import ConnectionsFull
from orchestrator.domain.pace import Pace
from orchestrator.faces.http.connections import (
    RETRY_AFTER_SECONDS,
    STRANGERS_BURST,
    STRANGERS_PAUSE_SECONDS,
    Connections,
)
from orchestrator.faces.http.problems import bare_answer

KEEPALIVE_SECONDS = 75.0
# How long an unread body is thrown away, so that its sender gets to read the refusal.
LINGERING_SECONDS = 5.0
# Of a body that waits to be read; what the kernel holds of it comes on top.
READ_BUFFER_BYTES = 16 * 1024
STRANGERS_KERNEL_BYTES = 16 * 1024
CALLERS_KERNEL_BYTES = 128 * 1024
# Requests that were sent before the answer to an earlier one: few clients do that, none needs it.
MAX_PIPELINED = 2
IPV6_NETWORK_BITS = 64

NO_ROOM = bare_answer(
    ConnectionsFull("The daemon has no room for another connection.", retry_after_seconds=RETRY_AFTER_SECONDS)
)
HEADERS_TOO_LARGE = bare_answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
HEADERS_TOO_SLOW = bare_answer(HTTPStatus.REQUEST_TIMEOUT)
OPTIONS: dict[str, Any] = {
    "access_log": None,
    "auto_decompress": False,
    "keepalive_timeout": KEEPALIVE_SECONDS,
    "lingering_time": LINGERING_SECONDS,
    "read_bufsize": READ_BUFFER_BYTES,
}


class Connection(web.RequestHandler):
    """aiohttp's handler of a connection, with an eye on what it is sent and on what is read of its replies."""

    __slots__ = (
        *("_admitted", "_answered", "_connections", "_deadline", "_fruitless_bytes", "_generous", "_payload"),
        *("_pace", "_stall", "_wire"),
    )

    def __init__(self, connections: Connections, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **OPTIONS)
        # aiohttp lets 32 requests wait, and has no parameter for it.
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_PIPELINED, MAX_PIPELINED - 1
        self._parser = HttpRequestParser(
            self,
            loop,
            READ_BUFFER_BYTES,
            payload_exception=web.RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=MAX_PIPELINED,
        )
        self._connections = connections
        self._admitted = False
        self._generous = False
        self._fruitless_bytes = 0  # of headers or trailers that go on and on
        self._payload: StreamReader = EMPTY_PAYLOAD  # of the newest request
        self._answered = False
        self._pace = Pace(STRANGERS_BURST, STRANGERS_PAUSE_SECONDS)
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._wire: asyncio.WriteTransport | None = None  # aiohttp forgets its own before all is sent

    @property
    def unread_bytes(self) -> int:
        return self._wire.get_write_buffer_size() if self._wire is not None else 0

    def serve(self, request: web.BaseRequest, caller: str) -> None:
        """Tell that the request on this connection is a caller's."""
        self._connections.serve(self, caller)
        if not self._generous:
            self._generous = True
            _set_kernel_buffers(request.transport, CALLERS_KERNEL_BYTES)

    async def wait_as_a_stranger(self) -> None:
        await asyncio.sleep(self._pace.take())

    async def wait_as(self, caller: str) -> bool:
        """Wait for the caller's turn; say whether that took any time."""
        seconds = self._connections.take_turn(caller)
        if seconds:
            await asyncio.sleep(seconds)
        return seconds > 0

    def require_short_headers(self, request: web.BaseRequest) -> None:
        """Refuse headers that are too large together, in however many pieces they came."""
        size = len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
        if size > self._connections.limits.header_bytes:
            raise web.HTTPRequestHeaderFieldsTooLarge

    def cut(self) -> None:
        """Close at once, and let go of what was received: somebody else needs the room."""
        wire = self._wire
        self.connection_lost(None)
        self._messages.clear()
        if wire is not None:
            wire.abort()

    # --- what the event loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _set_kernel_buffers(transport, STRANGERS_KERNEL_BYTES)
        self._admitted = self._connections.admit(self, network_of(transport.get_extra_info("peername")))
        wire = cast(asyncio.WriteTransport, transport)
        if self._admitted:
            self._wire = wire
            super().connection_made(transport)
        else:
            wire.write(NO_ROOM)
            wire.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.leave(self)
        self._wire = None
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()
        if self._admitted:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._admitted or self._close or self._force_close:
            return
        if data and self._keeps_for_a_stranger() and not self._connections.hold(self, len(data)):
            self._connections.note("refused")
            self.cut()
            return
        requests, progress = self._request_count, self._progress
        super().data_received(data)
        if self._request_count != requests:
            self._take_up_newest()
        if self._progress != progress:
            self._fruitless_bytes = 0
            self._stop_deadline()
        else:
            self._fruitless_bytes += len(data)
            self._watch_headers()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._connections.serves(self):
            self._connections.stall(self)
            self._watch_reader(self.unread_bytes)
        else:  # answers to strangers are short: one who leaves so many unread wants to fill the memory
            self._loop.call_soon(self.cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._connections.go_on(self)
        if self._stall is not None:
            self._stall.cancel()

    # --- what aiohttp tells ---

    def force_close(self) -> None:
        super().force_close()
        if unread_bytes := self.unread_bytes:  # the socket stays open until that is read, or given up
            self._watch_reader(unread_bytes)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._connections.rest(self)
            if not self._messages:
                self._connections.let_go(self)
                self._answered = True
            self._watch_headers()

    # --- limits and deadlines ---

    @property
    def _progress(self) -> tuple[int, int, bool]:
        return self._request_count, self._payload.total_bytes, self._payload.is_eof()

    def _keeps_for_a_stranger(self) -> bool:
        is_discarded = self._answered and not self._payload.is_eof()
        return not is_discarded and not self._connections.serves(self)

    def _take_up_newest(self) -> None:
        message, payload = self._messages[-1]
        if isinstance(message, RawRequestMessage):
            self._payload, self._answered = payload, False
            return
        self._connections.note("malformed")
        if not self._payload.is_eof():
            # A body broke off in the middle. aiohttp would let its reader wait, and answer a request that is none.
            self._messages.pop()
            self._payload.set_exception(web.RequestPayloadError("The body is malformed."))
            self._payload.feed_eof()
            self.close()

    def _watch_headers(self) -> None:
        if self._fruitless_bytes > self._connections.limits.header_bytes:
            self._refuse(HEADERS_TOO_LARGE)
        elif self._fruitless_bytes and self._deadline is None:
            self._deadline = self._loop.call_later(self._connections.limits.header_seconds, self._miss_deadline)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _miss_deadline(self) -> None:
        self._deadline = None
        if not self._connections.serves(self):  # otherwise it begins anew when the request is answered
            self._refuse(HEADERS_TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        self._connections.note("refused")
        transport = self.transport
        if transport is None:
            return
        if self._current_request is not None or self.unread_bytes:
            self.cut()
            return
        transport.write(answer)
        self.force_close()

    def _watch_reader(self, unread_bytes: int) -> None:
        def look() -> None:
            if self.unread_bytes >= unread_bytes:
                self._connections.note("stalled")
                self.cut()
            else:
                self._watch_reader(self.unread_bytes)

        if self._stall is not None:
            self._stall.cancel()
        self._stall = self._loop.call_later(self._connections.limits.stall_seconds, look)


def connection_of(request: web.Request) -> Connection:
    connection = request.protocol
    assert isinstance(connection, Connection)  # noqa: S101  (the daemon listens with no other)
    return connection


def network_of(peer: Any) -> str:
    """Return whom to count a connection with: an address, or the network that one subscriber of IPv6 has."""
    if not isinstance(peer, tuple):
        return ""
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, IPV6_NETWORK_BITS), strict=False))


def _set_kernel_buffers(transport: asyncio.BaseTransport | None, size: int) -> None:
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(size, CALLERS_KERNEL_BYTES))
