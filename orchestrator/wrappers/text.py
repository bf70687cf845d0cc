"""Makes text of strangers safe to write into comments."""

from __future__ import annotations

_MAX_LINES = 200
_MAX_CHARACTERS = 8000
_JOINERS = "\u200c\u200d"


def comment_lines(text: str) -> list[str]:
    """Return lines without anything that a compiler or a terminal might not take for text, such as bidi controls."""
    lines = []
    for line in text[:_MAX_CHARACTERS].strip().splitlines()[:_MAX_LINES]:
        visible = (
            character if character.isprintable() or character in _JOINERS else " " if character.isspace() else "\ufffd"
            for character in line
        )
        lines.append("".join(visible).rstrip())
    return [*lines, "…"] if len(text) > _MAX_CHARACTERS else lines
