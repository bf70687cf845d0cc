"""The daemon's end of a runner's stdin and stdout, whatever carries them: while it is held, the runner lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from orchestrator.engines.runner.frames import Frame, FramingBroken, RunnerFrameDecoder

_KEPT_STDERR_BYTES = 4096


class Leash(ABC):
    """An engine's connection to one runner. The engine hands in what arrives and says how to write and to hang up."""

    def __init__(self) -> None:
        self._frames = RunnerFrameDecoder()
        self._on_frame: Callable[[Frame], None] = lambda frame: None
        self._on_end: Callable[[], None] = lambda: None
        self._stderr_tail = b""
        self._fault: str | None = None
        self.alive = True

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write to the runner's stdin; what is written after the end is lost."""

    @abstractmethod
    async def drain(self) -> None:
        """Return when little of what was sent is still here, or nothing will be taken any more."""

    @abstractmethod
    def pause(self) -> None:
        """Read nothing until `resume`; what was read already still arrives."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def hang_up(self) -> None:
        """End stdin, and with it the runner."""

    @property
    def why_it_ended(self) -> str:
        # The runner's own complaint; the program's stderr comes in frames and is never mistaken for it.
        complaint = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()
        return self._fault or ": ".join(["the sandbox ended without a result", *complaint[-1:]])

    def listen(self, on_frame: Callable[[Frame], None], on_end: Callable[[], None]) -> None:
        self._on_frame, self._on_end = on_frame, on_end

    def let_go(self) -> None:
        self.hang_up()
        self.ended()

    def took_stdout(self, data: bytes) -> None:
        """Pass on the frames in what arrived; whoever breaks the protocol is let go."""
        try:
            for frame in self._frames.feed(data):
                self._on_frame(frame)
        except FramingBroken as error:
            self._fault = f"the runner broke the protocol: {error}"
            self.let_go()

    def took_stderr(self, data: bytes) -> None:
        self._stderr_tail = (self._stderr_tail + data)[-_KEPT_STDERR_BYTES:]

    def ended(self) -> None:
        """Tell whoever listens, once."""
        if self.alive:
            self.alive = False
            self._on_end()
