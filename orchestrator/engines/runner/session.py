"""What the daemon and a sandbox's supervisor say to each other over the leash: the program, its output, its ending, and
its connections to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Check, Ending, Mistake, Outcome, Stream, Usage
from orchestrator.domain.mistakes import mistakes_in
from orchestrator.domain.sandbox import Program
from orchestrator.engines.runner.frames import (
    PROTOCOL,
    Frame,
    FrameKind,
    FramingBroken,
    encode,
    encode_append,
    encode_files,
    encode_run,
)
from orchestrator.engines.runner.handover import OF_FILES, FileSink, Handover
from orchestrator.engines.runner.leash import Leash
from orchestrator.engines.runner.relay import Accept, Relay

Receive = Callable[[Stream, bytes], None]
Pass = Callable[[], None]
Ended = Callable[[], None]
T = TypeVar("T")

log = structlog.get_logger()

PREPARE_CHARACTERS = 1024 * 1024
APPEND_BYTES = 256 * 1024
# From its ending on a program's files may take this long; its ending stands, whatever becomes of them.
HANDOVER_SECONDS = 30.0
# A program that is rejected is told to stop for the sake of its files only.
REJECTION_SECONDS = 5.0
MAX_STATUS = 255  # of exit codes; signals have less
MAX_MEASURE = 2**52
_NOT_EXITED = (Outcome.TIMED_OUT, Outcome.OUTPUT_LIMIT, Outcome.OUT_OF_MEMORY, Outcome.CANCELLED)
_ENDINGS = {each.value: each for each in _NOT_EXITED}
_RELAYED = (FrameKind.OPENED, FrameKind.BYTES, FrameKind.WINDOW, FrameKind.FINISHED)
_STREAMS = {FrameKind.STDOUT: Stream.STDOUT, FrameKind.STDERR: Stream.STDERR}


class SupervisorSession:
    """One program, run once; its connections to the gateway go to `accept`."""

    def __init__(self, leash: Leash, sandbox_id: str, accept: Accept) -> None:
        loop = asyncio.get_running_loop()
        self._leash = leash
        self._relay = Relay(leash.send, sandbox_id, accept)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._preloaded: asyncio.Future[None] = loop.create_future()
        self._done: asyncio.Future[Ending] = loop.create_future()
        self._receive: Receive = lambda stream, data: None
        self._pass: Pass = lambda: None
        self._ended: Ended = lambda: None
        self._check = Check.OFF
        self._mistakes: tuple[Mistake, ...] = ()
        self._room = {Stream.STDOUT: 0, Stream.STDERR: 0}
        self._brought: dict[bytes, int] = {}
        self._runs = False
        self._reported = False
        self._rejection: Ending | None = None
        self._handover: Handover | None = None
        leash.listen(self._take, self._end)

    @property
    def alive(self) -> bool:
        return self._leash.alive

    async def until_ready(self) -> None:
        await asyncio.shield(self._ready)

    def close(self) -> None:
        """Let the supervisor go, which ends it."""
        self._leash.let_go()

    def prepare(self, files: Mapping[str, str]) -> None:
        """Send files, in pieces: a frame has a limit, and a role may see thousands of tools."""
        batch: dict[str, str] = {}
        size = 0
        for path, text in files.items():
            batch[path] = text
            size += len(text)
            if size > PREPARE_CHARACTERS:
                self._leash.send(encode_files(batch))
                batch, size = {}, 0
        if batch:
            self._leash.send(encode_files(batch))

    async def preload(self) -> None:
        self._leash.send(encode(FrameKind.PRELOAD))
        await asyncio.shield(self._preloaded)

    async def bring(self, path: str, pieces: AsyncIterable[bytes]) -> None:
        """Send a file, no faster than the sandbox takes it."""
        key = path.encode()
        if key in self._brought:
            raise ValueError(f"{path!r} was brought before")
        self._brought[key] = 0
        async for piece in pieces:
            for start in range(0, len(piece), APPEND_BYTES):
                await self._append(path, piece[start : start + APPEND_BYTES])
            self._brought[key] += len(piece)
        if not self._brought[key]:
            await self._append(path, b"")

    async def _append(self, path: str, data: bytes) -> None:
        self._leash.send(encode_append(path, data))
        await self._leash.drain()
        if self._done.done():
            self._done.result()  # raises why the sandbox failed

    @property
    def handing_over(self) -> bool:
        """Tell whether the program has ended, and what it left is on its way."""
        return self._reported and self._runs

    async def run(
        self,
        program: Program,
        receive: Receive,
        pass_: Pass = lambda: None,
        sink: FileSink | None = None,
        ended: Ended = lambda: None,
    ) -> Ending:
        """Run the program; `pass_` is called if a check finds nothing for which it would be rejected.

        `ended` is called when the supervisor reports the ending, however long the files then take.
        """
        limit = program.limits.max_output_bytes
        self._check = program.check if program.is_checked else Check.OFF
        self._pass, self._ended = pass_, ended
        self._room = {Stream.STDOUT: limit, Stream.STDERR: limit}
        self._receive = receive
        if sink is None:
            program = replace(program, hands_over={})
        else:
            self._handover = Handover(program.hands_over, self._brought, sink, self._leash)
        self._runs = True
        self._leash.send(encode_run(program))
        try:
            ending = await asyncio.shield(self._done)
            if self._handover is not None and self._reported:
                await self._hand_over(self._handover)
            return ending
        finally:
            self._runs = False

    async def _hand_over(self, handover: Handover) -> None:
        """Wait for the files, of which none changes the ending."""
        try:
            async with asyncio.timeout(HANDOVER_SECONDS):
                await handover.feed()
        except TimeoutError:
            log.warning("handover.overdue", seconds=HANDOVER_SECONDS)
        except Exception:
            log.exception("handover.failed")

    def stop(self) -> None:
        """End the program; without one, or when it has ended, this does nothing."""
        if self._runs and not self._done.done():
            self._leash.send(encode(FrameKind.STOP))

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.OPENED if self._reported:
                raise FramingBroken("a connection after the end")
            case kind if kind in _RELAYED:
                self._relay.take(frame)
            case kind if kind in OF_FILES and self._reported and self._handover is not None:
                self._handover.take(frame)
            case FrameKind.FAULT:
                self._lose(SandboxFault(f"the runner failed: {frame.payload.decode(errors='replace')}"))
            case _ if self._reported:
                raise FramingBroken(f"a {frame.kind.name} frame after the end")
            case FrameKind.STDOUT | FrameKind.STDERR:
                # The supervisor caps output; this second cap holds even if the supervisor were taken over.
                stream = _STREAMS[frame.kind]
                self._room[stream] -= len(frame.payload)
                if self._room[stream] < 0:
                    raise FramingBroken(f"more {stream} than its limit")
                self._receive(stream, frame.payload)
            case FrameKind.READY if frame.payload == PROTOCOL:
                _resolve(self._ready, None)
            case FrameKind.READY:
                self._fail(SandboxFault("the runner image is of another version than the daemon: run `make image`"))
            case FrameKind.PRELOAD:
                _resolve(self._preloaded, None)
            case FrameKind.CHECKED if self._check is not Check.OFF:
                self._judge(mistakes_of(frame))
            case FrameKind.DONE:
                ending = ending_of(frame.fields())
                explained = () if ending.outcome is Outcome.COMPLETED else self._mistakes
                self._reported = True
                self._relay.lose_all()  # however long its files take, nothing more begins that the program asked for
                _resolve(self._done, self._rejection or replace(ending, mistakes=explained))
                self._ended()
            case _:
                raise FramingBroken(f"an unexpected {frame.kind.name} frame")

    def _judge(self, mistakes: tuple[Mistake, ...]) -> None:
        """Let the program go on, or tell its end, with what it left: whoever holds the sandbox then destroys it."""
        strict, self._check, self._mistakes = self._check is Check.STRICT, Check.OFF, mistakes
        if strict and mistakes:
            self._receive = lambda stream, data: None  # what it says of being ended is of no use to anybody
            self._rejection = Ending(Outcome.REJECTED, mistakes=mistakes)
            if self._handover is None:
                _resolve(self._done, self._rejection)
            else:
                self.stop()
                loop = asyncio.get_running_loop()
                loop.call_later(REJECTION_SECONDS, _resolve, self._done, self._rejection)
        else:
            self._pass()

    def _end(self) -> None:
        self._relay.lose_all()
        self._lose(SandboxFault(self._leash.why_it_ended))

    def _lose(self, fault: SandboxFault) -> None:
        """Note that nothing more will come; what is known of the ending already stands."""
        if self._handover is not None:
            self._handover.lose()
        if self._rejection is not None:
            _resolve(self._done, self._rejection)
        self._fail(fault)

    def _fail(self, fault: SandboxFault) -> None:
        for waiting in (self._ready, self._preloaded, self._done):
            _reject(waiting, fault)


def mistakes_of(checked: Frame) -> tuple[Mistake, ...]:
    """Read what a check found; what is not understood says nothing."""
    try:
        return mistakes_in(checked.fields())
    except FramingBroken:
        return ()


def ending_of(done: Mapping[str, Any]) -> Ending:
    """Read how the program ended. A supervisor that was taken over could send what no journal takes, or no number."""

    def status(name: str) -> int | None:
        value = done[name]
        if value is None or (type(value) is int and 0 <= value <= MAX_STATUS):
            return value
        raise ValueError(repr(value)[:100])

    def measure(name: str) -> float:
        value = done[name]
        if type(value) in (int, float) and 0 <= value <= MAX_MEASURE:
            return float(value)
        raise ValueError(repr(value)[:100])

    try:
        exit_code, signal = status("exit_code"), status("signal")
        usage = Usage(measure("cpu_seconds"), int(measure("max_rss_bytes")))
        dropped = [int(measure(f"{stream}_dropped_bytes")) for stream in Stream]
        if (ending := str(done["ending"])) == "exited":
            outcome = Outcome.COMPLETED if exit_code == 0 else Outcome.FAILED
        else:
            outcome = _ENDINGS[ending]
    except (KeyError, TypeError, ValueError) as error:
        raise FramingBroken(f"a done frame without a usable {error}") from error
    return Ending(
        outcome,
        exit_code=exit_code,
        signal=signal,
        usage=usage,
        stdout_dropped_bytes=dropped[0],
        stderr_dropped_bytes=dropped[1],
    )


def _resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], fault: SandboxFault) -> None:
    if not future.done():
        future.set_exception(fault)
        future.exception()  # counts as retrieved: a fault that nobody waits for is no event loop error
