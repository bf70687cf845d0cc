"""Takes what a program left, after its ending is known. The supervisor's word is checked: it bounds what it sends, and
here it is counted again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import structlog

from orchestrator.domain.files import MAX_DEPTH, MAX_PART_BYTES, FileLimits, Place, Why
from orchestrator.engines.runner.frames import Frame, FrameKind, FramingBroken, found_file, missed_file
from orchestrator.engines.runner.leash import Leash

log = structlog.get_logger()

MAX_NAMED = 20  # of the files that are left out of a place
ITSELF = b"."  # the name of a place that is left out as a whole
MAX_COUNT = 2**32
MAX_SIZE = 2**52
# How much is held for a sink that is slower than the sandbox; nothing is read from the sandbox meanwhile.
PAUSE_ABOVE_BYTES = 1024 * 1024
RESUME_BELOW_BYTES = 256 * 1024
CALL_BYTES = 256  # what a call to the sink takes besides its data

OF_FILES = (FrameKind.FILE, FrameKind.CONTENT, FrameKind.LEFT_OUT, FrameKind.HANDED_OVER)


class FileSink(Protocol):
    """Takes files one after the other, as the port of the service says."""

    async def begin(self, place: Place, name: bytes, size: int) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...

    async def unchanged(self, place: Place, name: bytes) -> None: ...

    async def leave_out(self, place: Place, name: bytes, size: int, why: Why) -> None: ...

    async def close(self, left_out: Mapping[Place, int]) -> None: ...


Call = Callable[[], Awaitable[None]]


class _Taken:
    """What came out of one place so far."""

    def __init__(self, limits: FileLimits) -> None:
        self.limits = limits
        self.names: set[bytes] = set()
        self.bytes = 0
        self.left_out = 0


class Handover:
    """The way from the frames of a leash to a sink, with a bounded buffer between them."""

    def __init__(
        self, places: Mapping[Place, FileLimits], brought: Mapping[bytes, int], sink: FileSink, leash: Leash
    ) -> None:
        self._taken = {place: _Taken(limits) for place, limits in places.items()}
        self._brought = brought
        self._sink = sink
        self._leash = leash
        self._calls: asyncio.Queue[tuple[int, Call | None]] = asyncio.Queue()
        self._waiting_bytes = 0
        self._paused = False
        self._missing = 0  # of the content of the file that is being taken
        self._current: tuple[Place, bytes] | None = None
        self._ended = False
        if not places:
            self._close({})

    def take(self, frame: Frame) -> None:
        """Check one frame and hand it on."""
        if self._ended:
            raise FramingBroken(f"a {frame.kind.name} frame after all was handed over")
        match frame.kind:
            case FrameKind.CONTENT:
                self._content(frame.payload)
            case FrameKind.LEFT_OUT:
                self._left_out(frame)
            case _ if self._missing:
                raise FramingBroken("a file that ends too early")
            case FrameKind.FILE:
                self._file(frame)
            case _:
                self._all(frame)

    def lose(self) -> None:
        """Note that nothing more will come."""
        if not self._ended:
            self._ended = True
            self._put(0, None)

    async def feed(self) -> None:
        """Give the sink what comes, until that is all, or until it fails."""
        while True:
            size, call = await self._calls.get()
            self._waiting_bytes -= size
            if call is None:
                return
            await call()
            if self._paused and self._waiting_bytes < RESUME_BELOW_BYTES:
                self._paused = False
                self._leash.resume()

    def _file(self, frame: Frame) -> None:
        found = found_file(frame)
        taken = self._place(found.place)
        if found.name in taken.names or not is_below(found.name):
            raise FramingBroken("a file whose name is impossible or was there before")
        taken.names.add(found.name)
        taken.bytes += found.size
        limits = taken.limits
        within = len(taken.names) <= limits.max_files and taken.bytes <= limits.max_total_bytes
        if not within or found.size > limits.max_file_bytes:
            raise FramingBroken(f"more from {found.place} than its limits")
        if found.unchanged:
            if self._brought.get(found.place.encode() + b"/" + found.name) != found.size:
                raise FramingBroken("an unchanged file that was never brought")
            self._put(len(found.name), partial(self._sink.unchanged, found.place, found.name))
            return
        self._put(len(found.name), partial(self._sink.begin, found.place, found.name, found.size))
        self._current, self._missing = (found.place, found.name), found.size
        if not found.size:
            self._put(0, self._sink.end)

    def _content(self, data: bytes) -> None:
        if not 0 < len(data) <= self._missing:
            raise FramingBroken("more content than a file has")
        self._missing -= len(data)
        self._put(len(data), partial(self._sink.write, data))
        if not self._missing:
            self._put(0, self._sink.end)

    def _left_out(self, frame: Frame) -> None:
        missed = missed_file(frame)
        taken = self._place(missed.place)
        if missed.name != ITSELF and not is_below(missed.name):
            raise FramingBroken("a file left out whose name is impossible")
        if self._missing:
            if (missed.place, missed.name) != self._current or missed.why is not Why.LOST:
                raise FramingBroken("a file that ends too early")
            self._missing = 0
        elif missed.why is Why.LOST or taken.left_out >= MAX_NAMED:
            raise FramingBroken("a file lost that was not on its way, or too many left out by name")
        taken.left_out += 1
        size = min(missed.size, MAX_SIZE)
        self._put(len(missed.name), partial(self._sink.leave_out, missed.place, missed.name, size, missed.why))

    def _all(self, frame: Frame) -> None:
        told = frame.fields()
        if set(told) != {str(place) for place in self._taken}:
            raise FramingBroken("an end of other places than were asked for")
        counts = {place: told[place] for place in self._taken}
        for place, taken in self._taken.items():
            if type(counts[place]) is not int or not taken.left_out <= counts[place] <= MAX_COUNT:
                raise FramingBroken("an impossible number of files that were left out")
        self._close(counts)

    def _close(self, left_out: Mapping[Place, int]) -> None:
        self._put(0, partial(self._sink.close, left_out))
        self.lose()

    def _place(self, place: Place) -> _Taken:
        if place not in self._taken:
            raise FramingBroken(f"a file from {place}, which nobody asked for")
        return self._taken[place]

    def _put(self, size: int, call: Call | None) -> None:
        size += CALL_BYTES
        self._calls.put_nowait((size, call))
        self._waiting_bytes += size
        if self._waiting_bytes > PAUSE_ABOVE_BYTES and not self._paused:
            self._paused = True
            self._leash.pause()


def is_below(name: bytes) -> bool:
    """Tell whether a name stays in the folder that it is relative to, and is no longer than a supervisor's can be."""
    parts = name.split(b"/")
    return (
        b"\0" not in name
        and len(parts) <= MAX_DEPTH
        and all(part not in (b"", b".", b"..") and len(part) <= MAX_PART_BYTES for part in parts)
    )
