"""The parts of an output that a client can take in: its two ends, one page, or the lines that contain a text. Pure.

Inside, bytes that are no UTF-8 stay apart as lone surrogates, so that every cut is at a known byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


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
        return f"{self.head}{gap}{self.tail}" if self.left_out_bytes else self.head


@dataclass(frozen=True, slots=True)
class TextPage:
    text: str
    offset: int
    size: int


def preview(data: bytes, max_tokens: int, counter: TokenCounter) -> Preview:
    """Show all that was printed, or its beginning and its end if it does not fit."""
    text = _lossless(data)
    head = _beginning(text, max_tokens, counter)
    if len(head) == len(text):
        return Preview(_shown(text), "", len(data), 0, len(data))
    head_tokens = int(max_tokens * HEAD_SHARE)
    head = _beginning(text, head_tokens, counter)
    rest = text[len(head) :]
    tail = _fitting(lambda length: rest[len(rest) - length :], len(rest), max_tokens - head_tokens, counter)
    line_start = tail.find("\n") + 1
    if line_start <= len(tail) * LINE_SLACK:
        tail = tail[line_start:]
    return Preview(_shown(head), _shown(tail), _size(head), _size(tail), len(data))


def page(data: bytes, offset: int, max_tokens: int, counter: TokenCounter, *, is_last: bool) -> TextPage:
    """Show what fits of a slice that begins at the offset. A character that is cut off waits for the next page."""
    skipped = 0  # bytes that belong to the last character of the page before
    while skipped < min(MAX_CHARACTER_BYTES - 1, len(data)) and data[skipped] in CONTINUATION_BYTES:
        skipped += 1
    whole = data[skipped:] if is_last else _without_cut_character(data[skipped:])
    piece = _beginning(_lossless(whole), max_tokens, counter)
    return TextPage(_shown(piece), offset + skipped, _size(piece))


def matching_lines(data: bytes, wanted: str, from_offset: int = 0) -> tuple[list[SearchMatch], int]:
    """Return the first matches from the offset on, and how many there are in all."""
    matches: list[SearchMatch] = []
    needle, count, offset = wanted.casefold(), 0, 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        text = line.decode(errors="replace").rstrip("\r\n")
        if needle in text.casefold():
            count += 1
            if offset >= from_offset and len(matches) < MAX_MATCHES:
                matches.append(SearchMatch(line=number, offset=offset, text=_around(text, needle)))
        offset += len(line)
    return matches, count


def _beginning(text: str, max_tokens: int, counter: TokenCounter) -> str:
    piece = _fitting(lambda length: text[:length], len(text), max_tokens, counter)
    line_end = piece.rfind("\n") + 1
    if len(piece) == len(text) or line_end < len(piece) * (1 - LINE_SLACK):
        return piece
    return piece[:line_end]


def _fitting(cut: Callable[[int], str], length: int, max_tokens: int, counter: TokenCounter) -> str:
    piece = cut(min(length, max_tokens * MAX_CHARACTERS_PER_TOKEN))
    while piece:
        # Counted as clients pass it on: inside JSON, where each quote and newline is escaped.
        tokens = counter.count(json.dumps(_shown(piece), ensure_ascii=False))
        if tokens <= max_tokens:
            break
        piece = cut(int(len(piece) * SHRINK_MARGIN * max_tokens / tokens))
    return piece


def _lossless(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _shown(piece: str) -> str:
    return piece.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
