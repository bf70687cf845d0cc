"""The daemon's end of a keeper's relay: a sandbox's connections arrive as frames on the keeper's leash.

Each becomes a transport for an ordinary asyncio protocol. A keeper serves one sandbox at a time, so a connection is
known to be that sandbox's without trusting any address.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

from orchestrator.engines.runner.frames import Frame, FrameKind, FramingBroken, encode

MAX_DATA_BYTES = 32 * 1024
WINDOW_BYTES = 128 * 1024
RESUME_BELOW_BYTES = 64 * 1024
# Acknowledging each piece would wake everybody on the way once more; half a window at a time never stops the sender.
ACKNOWLEDGE_BYTES = WINDOW_BYTES // 2
MAX_CONNECTIONS = 128

_NUMBER = struct.Struct(">I")

Accept = Callable[[str], asyncio.Protocol]
Send = Callable[[bytes], None]


class Relay:
    """One sandbox's connections at a time; whose they are is known from where they come in."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sandbox_id = ""
        self._accept: Accept | None = None
        self._connections: dict[int, RelayedConnection] = {}

    def serve(self, sandbox_id: str, accept: Accept) -> None:
        self._sandbox_id, self._accept = sandbox_id, accept

    def stop_serving(self) -> None:
        self._accept = None
        for connection in list(self._connections.values()):
            connection.abort()

    def take(self, frame: Frame) -> None:
        """Accept the connection that a frame opens, or hand the frame to the one that it is for."""
        if len(frame.payload) < _NUMBER.size:
            raise FramingBroken("a relay frame without a number")
        number, data = _NUMBER.unpack_from(frame.payload)[0], frame.payload[_NUMBER.size :]
        if frame.kind is not FrameKind.OPENED:
            if connection := self._connections.get(number):
                connection.take(frame.kind, data)
            return
        if number in self._connections or len(self._connections) >= MAX_CONNECTIONS:
            raise FramingBroken("a keeper opened a connection that it may not")
        if self._accept is None:  # of a sandbox that is just gone
            self.send(FrameKind.FINISHED, number)
            return
        protocol = self._accept(self._sandbox_id)
        self._connections[number] = RelayedConnection(self, number, protocol, self._sandbox_id)
        protocol.connection_made(self._connections[number])

    def lose_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.lose()

    def forget(self, number: int) -> None:
        self._connections.pop(number, None)

    def send(self, kind: FrameKind, number: int, data: bytes = b"") -> None:
        self._send(encode(kind, _NUMBER.pack(number) + data))


class RelayedConnection(asyncio.Transport):
    def __init__(self, relay: Relay, number: int, protocol: asyncio.Protocol, sandbox_id: str) -> None:
        super().__init__({"sandbox_id": sandbox_id, "peername": (sandbox_id, number)})
        self._relay = relay
        self._number = number
        self._protocol = protocol
        self._may_send = WINDOW_BYTES
        self._unsent = bytearray()
        self._unread = bytearray()
        self._unacknowledged = 0
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False

    def take(self, kind: FrameKind, data: bytes) -> None:
        match kind:
            case FrameKind.BYTES:
                self._unread += data
                if len(self._unread) > WINDOW_BYTES:
                    raise FramingBroken("a keeper sent more than its window")
                self._deliver()
            case FrameKind.WINDOW:
                self._may_send = min(WINDOW_BYTES, self._may_send + _NUMBER.unpack(data)[0])
                self._flush()
            case FrameKind.FINISHED:
                self.lose()
            case _:
                raise FramingBroken(f"an unexpected {kind.name} frame")

    def lose(self) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._relay.forget(self._number)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        if self._closing:
            return
        self._unsent += data
        self._flush()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._flush()

    def abort(self) -> None:
        self._unsent.clear()
        self.close()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver()

    def is_reading(self) -> bool:
        return self._reading

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)  # noqa: S101  (narrows the type)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def _deliver(self) -> None:
        """Hand over what arrived in pieces, so that a protocol that has enough can say so before it has all."""
        while self._reading and self._unread and not self._closing:
            data = bytes(self._unread[:MAX_DATA_BYTES])
            del self._unread[: len(data)]
            self._unacknowledged += len(data)
            if self._unacknowledged >= ACKNOWLEDGE_BYTES:
                self._relay.send(FrameKind.WINDOW, self._number, _NUMBER.pack(self._unacknowledged))
                self._unacknowledged = 0
            self._protocol.data_received(data)

    def _flush(self) -> None:
        """Send as much as the window allows, tell the protocol whether to go on, and finish if this was the last."""
        while self._unsent and self._may_send and not self._lost:
            piece = bytes(self._unsent[: min(MAX_DATA_BYTES, self._may_send)])
            del self._unsent[: len(piece)]
            self._may_send -= len(piece)
            self._relay.send(FrameKind.BYTES, self._number, piece)
        if not self._writing_paused and len(self._unsent) > WINDOW_BYTES:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and len(self._unsent) < RESUME_BELOW_BYTES:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent and not self._lost:
            self._relay.send(FrameKind.FINISHED, self._number)
            self.lose()
