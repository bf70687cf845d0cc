"""The parts of an output that a client can take in: its two ends, one page, or the lines that contain a text. Pure.

Inside, bytes that are no UTF-8 stay apart as lone surrogates, so that every cut is at a known byte.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from orchestrator.faces.mcp.models import SearchMatch

# A token is seldom longer than this, so a longer text is too long without counting it.
MAX_CHARACTERS_PER_TOKEN = 12
HEAD_SHARE = 0.6
# Each round comes nearer to the budget from above; the margin keeps it from creeping.
SHRINK_MARGIN = 0.97
# How much may be given up to cut between lines.
LINE_SLACK = 0.2
CONTINUATION_BYTES = range(0x80, 0xC0)
MAX_CHARACTER_BYTES = 4
MAX_MATCHES = 100
MAX_LINE_CHARACTERS = 400
# One after the other: a list of all lines takes twenty times the bytes of short ones.
LINE = re.compile(rb"[^\r\n]*+(?:\r\n|[\r\n])|[^\r\n]++")


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Room:
    """How long a text may be: in tokens, and in characters as JavaScript counts them."""

    counter: TokenCounter
    tokens: int
    characters: int = sys.maxsize

    def excess(self, text: str) -> float:
        """Return how many times too long the text is; at most 1 means that it fits."""
        return max(self._cost(text) / max(1, self.tokens), _utf16_units(text) / max(1, self.characters))

    def without(self, text: str) -> Room:
        return replace(
            self,
            tokens=max(0, self.tokens - self._cost(text)),
            characters=max(0, self.characters - _utf16_units(text)),
        )

    def part(self, share: float) -> Room:
        return replace(self, tokens=int(self.tokens * share), characters=int(self.characters * share))

    def _cost(self, text: str) -> int:
        # Counted as clients pass it on: inside JSON, where each quote and newline is escaped.
        return self.counter.count(json.dumps(text, ensure_ascii=False)) if text else 0


@dataclass(frozen=True, slots=True)
class Preview:
    """All of a text as `head`, or its two ends with bytes left out in between."""

    head: str
    tail: str
    head_bytes: int
    tail_bytes: int
    total_bytes: int

    @property
    def left_out_bytes(self) -> int:
        return self.total_bytes - self.head_bytes - self.tail_bytes

    def text(self, gap: str) -> str:
        """Return all of it, or its two ends with the gap on a line between them."""
        if not self.left_out_bytes:
            return self.head
        line_break = "" if self.head.endswith("\n") else "\n"
        return f"{self.head}{line_break}{gap}\n{self.tail}"


@dataclass(frozen=True, slots=True)
class TextPage:
    text: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Matches:
    """Lines that contain a text: some of them, how many there are, and how many come after those."""

    shown: list[SearchMatch]
    count: int
    left: int


def preview(data: bytes, room: Room) -> Preview:
    """Show all that was printed, or its beginning and its end if it does not fit."""
    text = _lossless(data)
    head = _beginning(text, room)
    if len(head) == len(text):
        return Preview(_shown(text), "", len(data), 0, len(data))
    head = _beginning(text, room.part(HEAD_SHARE))
    rest = text[len(head) :]
    tail = _fitting(lambda length: rest[len(rest) - length :], len(rest), room.part(1 - HEAD_SHARE))
    line_start = tail.find("\n") + 1
    if line_start <= len(tail) * LINE_SLACK:
        tail = tail[line_start:]
    return Preview(_shown(head), _shown(tail), _size(head), _size(tail), len(data))


def page(data: bytes, offset: int, room: Room, *, is_last: bool) -> TextPage:
    """Show what fits of a slice that begins at the offset. A character that is cut off waits for the next page."""
    skipped = 0  # bytes that belong to the last character of the page before
    while skipped < min(MAX_CHARACTER_BYTES - 1, len(data)) and data[skipped] in CONTINUATION_BYTES:
        skipped += 1
    whole = data[skipped:] if is_last else _without_cut_character(data[skipped:])
    piece = _beginning(_lossless(whole), room)
    return TextPage(_shown(piece), offset + skipped, _size(piece))


def matching_lines(data: bytes, wanted: str, from_offset: int, room: Room) -> Matches:
    """Find the lines with a text, and show the first ones from the offset on that there is room for."""
    shown: list[SearchMatch] = []
    needle, count, left, offset = wanted.casefold(), 0, 0, 0
    for number, found in enumerate(LINE.finditer(data), start=1):
        line = found[0]
        text = line.decode(errors="replace").rstrip("\r\n")
        if needle in text.casefold():
            count += 1
            match = SearchMatch(line=number, offset=offset, text=_around(text, needle))
            if left or len(shown) == MAX_MATCHES or (shown and room.excess(as_line(match)) > 1):
                left += 1
            elif offset >= from_offset:
                room = room.without(as_line(match))
                shown.append(match)
        offset += len(line)
    return Matches(shown, count, left)


def is_utf8(data: bytes) -> bool:
    """Tell whether bytes are UTF-8, the last character of which may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def as_line(match: SearchMatch) -> str:
    return f"line {match.line}, offset {match.offset}: {match.text}"


def _beginning(text: str, room: Room) -> str:
    piece = _fitting(lambda length: text[:length], len(text), room)
    line_end = piece.rfind("\n") + 1
    if len(piece) == len(text) or line_end < len(piece) * (1 - LINE_SLACK):
        return piece
    return piece[:line_end]


def _fitting(cut: Callable[[int], str], length: int, room: Room) -> str:
    piece = cut(min(length, room.tokens * MAX_CHARACTERS_PER_TOKEN, room.characters))
    while piece and (excess := room.excess(_shown(piece))) > 1:
        piece = cut(int(len(piece) * SHRINK_MARGIN / excess))
    return piece


def _lossless(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _shown(piece: str) -> str:
    return piece.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _size(piece: str) -> int:
    return len(piece.encode("utf-8", "surrogateescape"))


def _without_cut_character(data: bytes) -> bytes:
    for length in range(1, min(MAX_CHARACTER_BYTES, len(data) + 1)):
        first = data[-length]
        if first not in CONTINUATION_BYTES:
            announced = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
            return data[:-length] if announced > length else data
    return data


def _around(text: str, needle: str) -> str:
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    start = max(0, text.casefold().find(needle) - MAX_LINE_CHARACTERS // 4)
    piece = text[start : start + MAX_LINE_CHARACTERS]
    return f"{'…' if start else ''}{piece}{'…' if start + len(piece) < len(text) else ''}"
