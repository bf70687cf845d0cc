"""Lines out of a byte stream, never holding more of one than a message may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ENDS_BYTES = 256
_COPIED_BYTES = 16 * 1024
_STRETCH_BYTES = 64 * 1024
_STRETCH_LINES = 100
_SOME_LINES = re.compile(rb"(?:[^\r\n]*+[\r\n]){%d}" % _STRETCH_LINES)

Line = bytes | bytearray


@dataclass(frozen=True, slots=True)
class Oversized:
    """The two ends of something that was too large to keep."""

    head: bytes
    tail: bytes


def stretches(chunk: bytes) -> Iterator[bytes]:
    """Cut a chunk into pieces of so little work that the event loop can do one at a time: few lines, few bytes."""
    start = 0
    while start < len(chunk):
        piece = chunk[start : start + _STRETCH_BYTES]
        if line_endings(piece) > _STRETCH_LINES and (found := _SOME_LINES.match(piece)):
            piece = found[0]
        yield piece
        start += len(piece)


def line_endings(piece: bytes) -> int:
    return piece.count(b"\n") + piece.count(b"\r")


class LineSplitter:
    """Cuts chunks into lines that end in LF."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._searched = 0
        self._head: bytes | None = None  # set while the rest of an oversized line is thrown away

    @property
    def overflowing(self) -> bool:
        """Whether the line that is arriving is already too large, though it has not ended."""
        return self._head is not None

    @property
    def held(self) -> int:
        """Return how much there is of the line that is arriving."""
        return len(self._line)

    def feed(self, chunk: bytes) -> Iterator[Line | Oversized]:
        """Yield the lines that this chunk ends; of one that is too large, only its two ends."""
        self._line += chunk
        while (end := self._line.find(b"\n", self._searched)) >= 0:
            line = self._take(end)
            self._searched = 0
            head, self._head = self._head, None
            if head is not None or len(line) > self._max_bytes:
                yield Oversized(head or bytes(line[:ENDS_BYTES]), bytes(line[-ENDS_BYTES:]))
            else:
                yield line
        if self._head is None and len(self._line) > self._max_bytes:
            self._head = bytes(self._line[:ENDS_BYTES])
        if self._head is not None:
            del self._line[:-ENDS_BYTES]
        self._searched = len(self._line)

    def _take(self, end: int) -> Line:
        if end <= _COPIED_BYTES:
            line = bytes(self._line[:end])
            del self._line[: end + 1]
            return line
        # A long line is what has arrived; only what follows it is copied.
        rest = self._line[end + 1 :]
        taken, self._line = self._line, rest
        del taken[end:]
        return taken
