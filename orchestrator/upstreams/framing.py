"""Lines and server-sent events out of a byte stream, never holding more than a message may have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ENDS_BYTES = 256


@dataclass(frozen=True, slots=True)
class Oversized:
    """The two ends of what was too large to keep."""

    head: bytes
    tail: bytes


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: bytes


MESSAGE = "message"  # the kind of an event that names none


class LineSplitter:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._searched = 0
        self._head: bytes | None = None  # set while the rest of an oversized line is thrown away

    @property
    def overflowing(self) -> bool:
        return self._head is not None

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        self._line += chunk
        while (end := self._line.find(b"\n", self._searched)) >= 0:
            yield self._cut(end)
        self._searched = len(self._line)
        self._shed()

    def _cut(self, end: int) -> bytes | Oversized:
        line = bytes(self._line[:end])
        del self._line[: end + 1]
        self._searched = 0
        head, self._head = self._head, None
        if head is not None or len(line) > self._max_bytes:
            return Oversized(head or line[:ENDS_BYTES], line[-ENDS_BYTES:])
        return line

    def _shed(self) -> None:
        if self._head is None and len(self._line) > self._max_bytes:
            self._head = bytes(self._line[:ENDS_BYTES])
        if self._head is not None:
            del self._line[:-ENDS_BYTES]
            self._searched = len(self._line)


class EventStreamDecoder:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes + len(b"data: "))
        self._after_carriage_return = False
        self._begin()

    def _begin(self) -> None:
        self._kind = MESSAGE
        self._data: list[bytes] = []
        self._size = 0
        self._oversized: Oversized | None = None

    @property
    def overflowing(self) -> bool:
        """What is arriving is already too large, though it has not ended."""
        return self._oversized is not None or self._lines.overflowing

    def feed(self, chunk: bytes) -> Iterator[Event | Oversized]:
        for line in self._lines.feed(self._with_one_line_ending(chunk)):
            if isinstance(line, Oversized):
                self._oversized = Oversized(line.head.removeprefix(b"data:").lstrip(), line.tail)
            elif line:
                self._field(line)
            elif (event := self._finish()) is not None:
                yield event

    def _with_one_line_ending(self, chunk: bytes) -> bytes:
        """Lines end in LF, CR LF or CR, and a chunk may end between the two."""
        if self._after_carriage_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_carriage_return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._keep_within_the_limit()
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")

    def _keep_within_the_limit(self) -> None:
        if self._oversized is None and self._size > self._max_bytes + 1:
            self._oversized = Oversized(self._data[0][:ENDS_BYTES], self._data[-1][-ENDS_BYTES:])
        if self._oversized is not None:
            self._data.clear()

    def _finish(self) -> Event | Oversized | None:
        kind, data, oversized = self._kind, self._data, self._oversized
        self._begin()
        if oversized is not None:
            return oversized
        # Without data it only gives the stream an id or a name, as servers do that can resume it.
        return Event(kind, joined) if (joined := b"\n".join(data)) else None
