"""The daemon's end of a container's attached stdin and stdout: the leash, and the frames that come back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from orchestrator.engines.runner.frames import EngineStreamDecoder, Frame, FramingBroken, RunnerFrameDecoder

_STDOUT = 1
_KEPT_STDERR_BYTES = 4096

OnFrame = Callable[[Frame], None]
OnEnd = Callable[[], None]


class LeashedProcess(asyncio.Protocol):
    """Reads on the event loop, not on a thread of its own, and holds nothing back."""

    def __init__(self) -> None:
        self._engine_stream = EngineStreamDecoder()
        self._runner_frames = RunnerFrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._on_frame: OnFrame = lambda frame: None
        self._on_end: OnEnd = lambda: None
        self._stderr_tail = b""
        self._fault: str | None = None
        self.alive = True

    @classmethod
    async def adopt(cls, attached: socket.socket) -> LeashedProcess:
        attached.setblocking(False)
        loop = asyncio.get_running_loop()
        connect = loop.create_unix_connection if attached.family == socket.AF_UNIX else loop.create_connection
        _, process = await connect(cls, sock=attached)
        return process

    @property
    def why_it_ended(self) -> str:
        # The supervisor's own complaint; the program's stderr comes in frames and is never mistaken for it.
        complaint = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()
        return self._fault or ": ".join(["the sandbox ended without a result", *complaint[-1:]])

    def listen(self, on_frame: OnFrame, on_end: OnEnd) -> None:
        self._on_frame, self._on_end = on_frame, on_end

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def let_go(self) -> None:
        """Ends stdin, and with it the process."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass of it

    def data_received(self, data: bytes) -> None:
        try:
            for descriptor, piece in self._engine_stream.feed(data):
                if descriptor == _STDOUT:
                    for frame in self._runner_frames.feed(piece):
                        self._on_frame(frame)
                else:
                    self._stderr_tail = (self._stderr_tail + piece)[-_KEPT_STDERR_BYTES:]
        except FramingBroken as error:
            self._fault = f"the runner broke the protocol: {error}"
            self.let_go()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if self.alive:
            self.alive = False
            self._on_end()
