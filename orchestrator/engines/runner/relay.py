"""The daemon's end of a sandbox's door: the program's connections to the gateway arrive as frames on the leash.

Each becomes a transport for an ordinary asyncio protocol. A leash leads to one sandbox, so a connection is known to be
that sandbox's without trusting any address. A program that makes connections without end waits for each: taking one up
costs the daemon more than it costs the program.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

from orchestrator.domain.pace import Pace
from orchestrator.engines.runner.frames import Frame, FrameKind, FramingBroken, encode

MAX_DATA_BYTES = 32 * 1024
WINDOW_BYTES = 128 * 1024
# Acknowledging each piece would wake everybody on the way once more; half a window at a time never stops the sender.
ACKNOWLEDGE_BYTES = WINDOW_BYTES // 2
MAX_CONNECTIONS = 128
# Clients keep their connections; more are made only by a program that speaks for itself.
CONNECTIONS_BURST = 2 * MAX_CONNECTIONS
CONNECTIONS_PAUSE_SECONDS = 0.05

_NUMBER = struct.Struct(">I")

Accept = Callable[[str], asyncio.Protocol]
Send = Callable[[bytes], None]


_NOBODY = asyncio.Protocol()  # does nothing


class Relay:
    """One sandbox's connections; whose they are is known from where they come in."""

    def __init__(self, send: Send, sandbox_id: str, accept: Accept) -> None:
        self._send = send
        self._sandbox_id = sandbox_id
        self._accept = accept
        self._pace = Pace(CONNECTIONS_BURST, CONNECTIONS_PAUSE_SECONDS)
        self._connections: dict[int, RelayedConnection] = {}
        self._waiting: dict[int, RelayedConnection] = {}  # for their turns; who came first is at the front
        self._next_turn: asyncio.TimerHandle | None = None

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
            raise FramingBroken("a supervisor opened a connection that it may not")
        self._connections[number] = self._waiting[number] = RelayedConnection(self, number, self._sandbox_id)
        if self._next_turn is None:
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Take up what waits, as far as there are turns; one that was given up meanwhile took none."""
        self._next_turn = None
        while self._waiting:
            if seconds := self._pace.seconds_to_next:
                self._next_turn = asyncio.get_running_loop().call_later(seconds, self._begin_waiting)
                return
            self._pace.take()
            connection = self._waiting.pop(next(iter(self._waiting)))
            connection.begin(self._accept(self._sandbox_id))

    def lose_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.lose()

    def forget(self, number: int) -> None:
        self._connections.pop(number, None)
        self._waiting.pop(number, None)

    def send(self, kind: FrameKind, number: int, data: bytes = b"") -> None:
        self._send(encode(kind, _NUMBER.pack(number) + data))


class RelayedConnection(asyncio.Transport):
    """One of them. What it is sent before its turn has come waits in its window."""

    def __init__(self, relay: Relay, number: int, sandbox_id: str) -> None:
        super().__init__({"sandbox_id": sandbox_id, "peername": (sandbox_id, number)})
        self._relay = relay
        self._number = number
        self._protocol = _NOBODY
        self._may_send = WINDOW_BYTES
        self._unsent = bytearray()
        self._unread = bytearray()
        self._unacknowledged = 0
        self._reading = False
        self._writing_paused = False
        self._closing = False
        self._lost = False

    def begin(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self.resume_reading()

    def take(self, kind: FrameKind, data: bytes) -> None:
        match kind:
            case FrameKind.BYTES:
                self._unread += data
                if len(self._unread) > WINDOW_BYTES:
                    raise FramingBroken("a supervisor sent more than its window")
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
        """Go on delivering, but never from within this call: aiohttp makes it in the middle of parsing a piece."""
        self._reading = True
        if self._unread:
            asyncio.get_running_loop().call_soon(self._deliver)

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
        # A window is on its way, so nothing stops if the next piece is written only when this one is gone. Whoever
        # waits for that knows that the program has taken all but a window of it.
        if bool(self._unsent) != self._writing_paused:
            self._writing_paused = not self._writing_paused
            (self._protocol.pause_writing if self._writing_paused else self._protocol.resume_writing)()
        if self._closing and not self._unsent and not self._lost:
            self._relay.send(FrameKind.FINISHED, self._number)
            self.lose()
