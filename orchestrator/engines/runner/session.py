"""A sandbox and a slot on the Docker engine, once they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Ending, Outcome, Stream, Usage
from orchestrator.domain.sandbox import Program
from orchestrator.engines.docker.attach import LeashedProcess
from orchestrator.engines.runner.frames import (
    PROTOCOL,
    Frame,
    FrameKind,
    FramingBroken,
    encode,
    encode_files,
    encode_run,
)
from orchestrator.engines.runner.relay import Accept, Relay

Receive = Callable[[Stream, bytes], None]
T = TypeVar("T")

Remove = Callable[[str, bool], Awaitable[None]]

PREPARE_CHARACTERS = 1024 * 1024
MAX_STATUS = 255  # of exit codes; signals have less
MAX_MEASURE = 2**52
_RELAYED = (FrameKind.OPENED, FrameKind.BYTES, FrameKind.WINDOW, FrameKind.FINISHED)
_STREAMS = {FrameKind.STDOUT: Stream.STDOUT, FrameKind.STDERR: Stream.STDERR}


class DockerContainer:
    """A running container of ours, held by its leash."""

    def __init__(self, container_id: str, process: LeashedProcess, remove: Remove) -> None:
        self.id = container_id
        self._process = process
        self._remove = remove
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        process.listen(self._take, self._end)

    @property
    def alive(self) -> bool:
        return self._process.alive

    async def until_ready(self) -> None:
        await asyncio.shield(self._ready)

    async def destroy(self) -> None:
        self._process.let_go()
        await self._remove(self.id, self._leaves_by_itself)

    @property
    def _leaves_by_itself(self) -> bool:
        """When it is let go, or has done its work; then the engine need not be asked to kill it."""
        return True

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.READY:
                self._note_ready(frame.payload)
            case FrameKind.FAULT:
                self._fail(SandboxFault(f"the runner failed: {frame.payload.decode(errors='replace')}"))
            case _:
                raise FramingBroken(f"an unexpected {frame.kind.name} frame")

    def _note_ready(self, protocol: bytes) -> None:
        if protocol == PROTOCOL:
            _resolve(self._ready, None)
        else:
            self._fail(SandboxFault("the runner image is of another version than the daemon: run `make image`"))

    def _end(self) -> None:
        self._fail(SandboxFault(self._process.why_it_ended))

    def _fail(self, fault: SandboxFault) -> None:
        _reject(self._ready, fault)


class DockerSlot(DockerContainer):
    """Also carries the sandbox's connections to the gateway."""

    def __init__(self, container_id: str, process: LeashedProcess, remove: Remove, accept: Accept) -> None:
        self._relay = Relay(container_id, process.send, accept)
        super().__init__(container_id, process, remove)

    def disconnect(self) -> None:
        """Ends what the last sandbox left open."""
        self._relay.abort_all()

    def _take(self, frame: Frame) -> None:
        if frame.kind in _RELAYED:
            self._relay.take(frame)
        else:
            super()._take(frame)

    def _end(self) -> None:
        self._relay.lose_all()
        super()._end()


class DockerSandbox(DockerContainer):
    def __init__(self, container_id: str, process: LeashedProcess, remove: Remove) -> None:
        self._done: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._preloaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receive: Receive = lambda stream, data: None
        self._room = {Stream.STDOUT: 0, Stream.STDERR: 0}
        self._begun = False
        super().__init__(container_id, process, remove)

    def prepare(self, files: Mapping[str, str]) -> None:
        for batch in _batches(files):
            self._process.send(encode_files(batch))

    async def preload(self) -> None:
        self._process.send(encode(FrameKind.PRELOAD))
        await asyncio.shield(self._preloaded)

    @property
    def _leaves_by_itself(self) -> bool:
        return not self._begun or self._done.done()

    async def run(self, program: Program, receive: Receive) -> Ending:
        limit = program.limits.max_output_bytes
        self._room = {Stream.STDOUT: limit, Stream.STDERR: limit}
        self._receive = receive
        self._begun = True
        self._process.send(encode_run(program))
        return await asyncio.shield(self._done)

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.STDOUT | FrameKind.STDERR:
                self._pass_on(_STREAMS[frame.kind], frame.payload)
            case FrameKind.PRELOAD:
                _resolve(self._preloaded, None)
            case FrameKind.DONE:
                _resolve(self._done, ending_of(frame.fields()))
            case _:
                super()._take(frame)

    def _pass_on(self, stream: Stream, data: bytes) -> None:
        # The supervisor caps output; this second cap holds even if the supervisor were taken over.
        self._room[stream] -= len(data)
        if self._room[stream] < 0:
            raise FramingBroken(f"more {stream} than its limit")
        self._receive(stream, data)

    def _fail(self, fault: SandboxFault) -> None:
        super()._fail(fault)
        _reject(self._preloaded, fault)
        _reject(self._done, fault)


def _resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], fault: SandboxFault) -> None:
    if not future.done():
        future.set_exception(fault)
        future.exception()  # counts as retrieved: a fault that nobody waits for is no event loop error


def ending_of(done: Mapping[str, Any]) -> Ending:
    try:
        exit_code, signal = _small_or_none(done["exit_code"]), _small_or_none(done["signal"])
        usage = Usage(_bounded(done["cpu_seconds"]), int(_bounded(done["max_rss_bytes"])))
        outcome = _outcome(str(done["ending"]), exit_code)
    except (KeyError, TypeError, ValueError) as error:
        raise FramingBroken(f"a done frame without a usable {error}") from error
    return Ending(outcome, exit_code=exit_code, signal=signal, usage=usage)


def _outcome(ending: str, exit_code: int | None) -> Outcome:
    if ending == "exited":
        return Outcome.COMPLETED if exit_code == 0 else Outcome.FAILED
    return Outcome(ending)


def _small_or_none(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= MAX_STATUS):
        return value
    raise ValueError(repr(value)[:100])


def _bounded(value: Any) -> float:
    """A supervisor that was taken over could send what no journal takes, or what is no number at all."""
    if type(value) in (int, float) and 0 <= value <= MAX_MEASURE:
        return float(value)
    raise ValueError(repr(value)[:100])


def _batches(files: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """In pieces: a frame has a limit, and a role may see thousands of tools."""
    batch: dict[str, str] = {}
    size = 0
    for path, text in files.items():
        batch[path] = text
        size += len(text)
        if size > PREPARE_CHARACTERS:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch
