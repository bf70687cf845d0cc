"""Lines of an output that contain a text. Pure."""

from __future__ import annotations

from orchestrator.faces.mcp.models import SearchMatch

MAX_MATCHES = 100
MAX_LINE_CHARACTERS = 400


def matching_lines(data: bytes, wanted: str, from_offset: int = 0) -> tuple[list[SearchMatch], int]:
    """The first matches from the offset on, and how many there are in all."""
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


def _around(text: str, needle: str) -> str:
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    start = max(0, text.casefold().find(needle) - MAX_LINE_CHARACTERS // 4)
    piece = text[start : start + MAX_LINE_CHARACTERS]
    return f"{'…' if start else ''}{piece}{'…' if start + len(piece) < len(text) else ''}"
