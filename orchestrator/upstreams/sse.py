"""Server-sent events out of a byte stream: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass

from orchestrator.upstreams.faults import ResultTooLarge
from orchestrator.upstreams.framing import ENDS_BYTES, Line, LineSplitter, Oversized, stretches
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.room import FREE_BYTES, Room

EVENT_STREAM = "text/event-stream"
MESSAGE = "message"  # the kind of an event that names none
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: Line
    id: str = ""  # the last one that the stream has given, in this event or in an earlier one


@dataclass(slots=True)
class _Draft:
    """What has arrived of an event."""

    kind: str = MESSAGE
    data: Line | None = None
    oversized: Oversized | None = None

    def add(self, line: Line) -> None:
        """Append a line in place: kept apart, short ones would take many times their bytes."""
        if self.data is None:
            self.data = line
            return
        if not isinstance(self.data, bytearray):
            self.data = bytearray(self.data)
        self.data += b"\n"
        self.data += line


class EventParser:
    """Takes a stream in chunks of any size and keeps no more of an event than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes + len(b"data: "))
        self._first_line = True
        self._after_carriage_return = False
        self._id = ""
        self._draft = _Draft()

    @property
    def overflowing(self) -> bool:
        """Whether the event that is arriving is already too large, though it has not ended."""
        return self._draft.oversized is not None or self._lines.overflowing

    @property
    def held(self) -> int:
        """Return how many bytes there are of the event that is arriving."""
        return len(self._draft.data or b"") + self._lines.held

    def feed(self, chunk: bytes) -> Iterator[Event | Oversized]:
        """Yield the events that this chunk ends; of one that is too large, only its two ends."""
        for line in self._lines.feed(self._with_one_line_ending(chunk)):
            if isinstance(line, Oversized):
                self._draft.oversized = Oversized(line.head.removeprefix(b"data:").lstrip(), line.tail)
                self._draft.data = None
            elif line:
                self._take_field(line.removeprefix(_BYTE_ORDER_MARK) if self._first_line else line)
            else:
                draft, self._draft = self._draft, _Draft()
                event = draft.oversized or Event(draft.kind, draft.data or b"", self._id)
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

    def _take_field(self, line: Line) -> None:
        colon = line.find(b":")
        name = bytes(line[:colon] if colon >= 0 else line)  # a comment has no name
        after = len(name) + (2 if line[len(name) + 1 : len(name) + 2] == b" " else 1)
        if isinstance(line, bytearray):  # a long one is cut, not copied
            del line[:after]
            value: Line = line
        else:
            value = line[after:]
        draft = self._draft
        match name:
            case b"data":
                if draft.oversized is None:
                    draft.add(value)
                if draft.data is not None and len(draft.data) > self._max_bytes:
                    draft.oversized = Oversized(bytes(draft.data[:ENDS_BYTES]), bytes(draft.data[-ENDS_BYTES:]))
                    draft.data = None
            case b"event":
                draft.kind = value.decode("utf-8", "replace") or MESSAGE
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")


async def events_in(
    chunks: AsyncIterable[bytes], max_bytes: int, room: Room | None = None, pace: ReadingPace | None = None
) -> AsyncGenerator[Event, None]:
    """Yield the events of a stream; raise ResultTooLarge as soon as one is known to exceed `max_bytes`."""
    parser = EventParser(max_bytes)
    async for chunk in chunks:
        for stretch in stretches(chunk):
            for event in parser.feed(stretch):
                if isinstance(event, Oversized):
                    raise ResultTooLarge(max_bytes)
                yield event
            if parser.overflowing:
                raise ResultTooLarge(max_bytes)
            if room is not None and parser.held > FREE_BYTES:
                await room.reserve(max_bytes)  # how much is still to come, nobody says
            await (pace.after(stretch) if pace is not None else asyncio.sleep(0))
