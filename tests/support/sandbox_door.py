"""A sandbox's end of its door to the gateway, without a sandbox: a test writes to it and sees what comes back."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

from orchestrator.engines.runner.frames import Frame, FrameKind, RunnerFrameDecoder
from orchestrator.engines.runner.relay import MAX_DATA_BYTES, WINDOW_BYTES, Accept, Relay

_NUMBER = struct.Struct(">I")


class Door:
    def __init__(self, accept: Accept, sandbox_id: str = "sandbox") -> None:
        self._frames = RunnerFrameDecoder()
        self._connections: dict[int, Visitor] = {}
        self.relay = Relay(self._sent, sandbox_id, accept)

    def open(self, *, takes: bool = True) -> Visitor:
        """Make a connection; one that does not take its answers reads none of them."""
        number = len(self._connections) + 1
        self._connections[number] = visitor = Visitor(self, number, takes=takes)
        self.put(FrameKind.OPENED, number)
        return visitor

    def put(self, kind: FrameKind, number: int, data: bytes = b"") -> None:
        self.relay.take(Frame(kind, _NUMBER.pack(number) + data))

    def _sent(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            number = _NUMBER.unpack_from(frame.payload)[0]
            self._connections[number].take(frame.kind, frame.payload[_NUMBER.size :])


class Visitor:
    def __init__(self, door: Door, number: int, *, takes: bool) -> None:
        self._door = door
        self._number = number
        self._takes = takes
        self._may_send = WINDOW_BYTES
        self._something_came = asyncio.Event()
        self.received = bytearray()
        self.finished = False

    def take(self, kind: FrameKind, data: bytes) -> None:
        if kind is FrameKind.BYTES:
            self.received += data
            if self._takes:
                asyncio.get_running_loop().call_soon(
                    self._door.put, FrameKind.WINDOW, self._number, _NUMBER.pack(len(data))
                )
        elif kind is FrameKind.WINDOW:
            self._may_send += _NUMBER.unpack(data)[0]
        elif kind is FrameKind.FINISHED:
            self.finished = True
        self._something_came.set()

    async def send(self, data: bytes) -> None:
        while data and not self.finished:
            piece, data = data[: min(MAX_DATA_BYTES, self._may_send)], data[min(MAX_DATA_BYTES, self._may_send) :]
            if piece:
                self._may_send -= len(piece)
                self._door.put(FrameKind.BYTES, self._number, piece)
            else:
                await self._wait()

    async def post(self, path: str, body: bytes, token: str, length: int | None = None) -> None:
        """Send a request, which may promise more than it has."""
        size = len(body) if length is None else length
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
        await self.send(head.encode() + body)

    async def answer(self) -> tuple[int, Any]:
        """Return the status and the decoded body of the next answer."""
        while b"\r\n\r\n" not in self.received:
            await self._wait()
        head, _, _ = bytes(self.received).partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        start = len(head) + 4
        end = start + int(fields["Content-Length"])
        while len(self.received) < end:
            await self._wait()
        body = bytes(self.received[start:end])
        del self.received[:end]
        return int(head.split()[1]), json.loads(body)

    def hang_up(self) -> None:
        self._door.put(FrameKind.FINISHED, self._number)

    async def until_finished(self) -> None:
        while not self.finished:
            await self._wait()

    async def _wait(self) -> None:
        self._something_came.clear()
        async with asyncio.timeout(10):
            await self._something_came.wait()
