"""Lines out of a byte stream, never holding more of one than a message may have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ENDS_BYTES = 256


@dataclass(frozen=True, slots=True)
class Oversized:
    """The two ends of something that was too large to keep."""

    head: bytes
    tail: bytes


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

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        """Yield the lines that this chunk ends; of one that is too large, only its two ends."""
        self._line += chunk
        while (end := self._line.find(b"\n", self._searched)) >= 0:
            line = bytes(self._line[:end])
            del self._line[: end + 1]
            self._searched = 0
            head, self._head = self._head, None
            if head is not None or len(line) > self._max_bytes:
                yield Oversized(head or line[:ENDS_BYTES], line[-ENDS_BYTES:])
            else:
                yield line
        if self._head is None and len(self._line) > self._max_bytes:
            self._head = bytes(self._line[:ENDS_BYTES])
        if self._head is not None:
            del self._line[:-ENDS_BYTES]
        self._searched = len(self._line)
