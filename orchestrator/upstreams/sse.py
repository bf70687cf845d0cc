"""Server-sent events out of a byte stream: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass

from orchestrator.upstreams.faults import ResultTooLarge
from orchestrator.upstreams.framing import ENDS_BYTES, LineSplitter, Oversized

EVENT_STREAM = "text/event-stream"
MESSAGE = "message"  # the kind of an event that names none
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: bytes
    id: str = ""  # the last one that the stream has given, in this event or in an earlier one


class EventParser:
    """Takes a stream in chunks of any size and keeps no more of an event than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes + len(b"data: "))
        self._first_line = True
        self._after_carriage_return = False
        self._id = ""
        self._begin_event()

    def _begin_event(self) -> None:
        self._kind = MESSAGE
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._oversized: Oversized | None = None

    @property
    def overflowing(self) -> bool:
        """Whether the event that is arriving is already too large, though it has not ended."""
        return self._oversized is not None or self._lines.overflowing

    def feed(self, chunk: bytes) -> Iterator[Event | Oversized]:
        """Yield the events that this chunk ends; of one that is too large, only its two ends."""
        for line in self._lines.feed(self._with_one_line_ending(chunk)):
            if isinstance(line, Oversized):
                self._oversized = Oversized(line.head.removeprefix(b"data:").lstrip(), line.tail)
            elif line:
                self._take_field(line.removeprefix(_BYTE_ORDER_MARK) if self._first_line else line)
            else:
                event = self._oversized or Event(self._kind, b"\n".join(self._data), self._id)
                self._begin_event()
                # Servers that can resume a stream begin it with an event that has an id and empty data: no message.
                if isinstance(event, Oversized) or event.data:
                    yield event
            self._first_line = False

    def _with_one_line_ending(self, chunk: bytes) -> bytes:
        """Turn CR LF and CR into LF, also where a chunk ends between the two."""
        if not chunk:
            return chunk
        if self._after_carriage_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_carriage_return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")  # a comment has no name
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._data_bytes += len(value) + 1
                if self._oversized is None and self._data_bytes > self._max_bytes + 1:
                    self._oversized = Oversized(self._data[0][:ENDS_BYTES], value[-ENDS_BYTES:])
                if self._oversized is not None:
                    self._data.clear()
            case b"event":
                self._kind = value.decode("utf-8", "replace") or MESSAGE
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")


async def events_in(chunks: AsyncIterable[bytes], max_bytes: int) -> AsyncGenerator[Event, None]:
    """Yield the events of a stream; raise ResultTooLarge as soon as one is known to exceed `max_bytes`."""
    parser = EventParser(max_bytes)
    async for chunk in chunks:
        for event in parser.feed(chunk):
            if isinstance(event, Oversized):
                raise ResultTooLarge(max_bytes)
            yield event
        if parser.overflowing:
            raise ResultTooLarge(max_bytes)
