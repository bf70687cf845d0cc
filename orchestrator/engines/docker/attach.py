"""A leash over Docker's attach: one connection that carries stdin, and stdout and stderr multiplexed."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from typing import cast

from orchestrator.engines.runner.leash import Leash

_STDOUT = 1
_HEADER = struct.Struct(">BxxxI")
# How much that was sent may wait here while the sandbox takes it.
_HIGH_BYTES = 512 * 1024
_LOW_BYTES = 128 * 1024


class EngineStreamDecoder:
    """Splits the engine's stream into (file descriptor, bytes); needs no whole chunk in memory."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._descriptor = 0
        self._left_in_chunk = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        view = memoryview(data)
        while view:
            if self._left_in_chunk:
                piece = view[: self._left_in_chunk]
                self._left_in_chunk -= len(piece)
                view = view[len(piece) :]
                yield self._descriptor, bytes(piece)
                continue
            missing = _HEADER.size - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER.size:
                self._descriptor, self._left_in_chunk = _HEADER.unpack(self._header)
                self._header.clear()


class AttachedLeash(Leash, asyncio.Protocol):
    """Reads on the event loop, not on a thread of its own, and holds nothing back."""

    def __init__(self) -> None:
        super().__init__()
        self._engine_stream = EngineStreamDecoder()
        self._transport: asyncio.Transport | None = None
        self._may_send = asyncio.Event()
        self._may_send.set()

    async def adopt(self, attached: socket.socket) -> None:
        """Take over the connection of an attach request that the engine has answered. Whoever listens must do so by
        now: the runner may have said already that it is ready."""
        attached.setblocking(False)
        loop = asyncio.get_running_loop()
        connect = loop.create_unix_connection if attached.family == socket.AF_UNIX else loop.create_connection
        await connect(lambda: self, sock=attached)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._may_send.wait()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass of it
        self._transport.set_write_buffer_limits(_HIGH_BYTES, _LOW_BYTES)

    def pause_writing(self) -> None:
        self._may_send.clear()

    def resume_writing(self) -> None:
        self._may_send.set()

    def data_received(self, data: bytes) -> None:
        for descriptor, piece in self._engine_stream.feed(data):
            if descriptor == _STDOUT:
                self.took_stdout(piece)
            else:
                self.took_stderr(piece)

    def connection_lost(self, error: Exception | None) -> None:
        self._may_send.set()
        self.ended()
