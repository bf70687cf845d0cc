"""What is said of files, in the same words wherever it is said."""

from __future__ import annotations

from orchestrator.domain.files import Why

_UNIT = 1024
IN_WORDS = {
    Why.TOO_LARGE: "too large",
    Why.TOO_MANY: "more files than are kept",
    Why.NO_ROOM: "no room: all files together are too large",
    Why.NOT_A_FILE: "not a file, but a link or the like",
    Why.TOO_DEEP: "in too many folders",
    Why.UNREADABLE: "could not be read",
    Why.BAD_NAME: "its name cannot be used",
    Why.QUOTA: "the quota for files is used up",
    Why.LOST: "changed while it was handed over, or the sandbox had ended",
}


def size_in_words(size: int) -> str:
    """Write a size as people read it: `512 bytes`, `1.5 KiB`."""
    if size < _UNIT:
        return "1 byte" if size == 1 else f"{size} bytes"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= _UNIT
        if amount < _UNIT or unit == "GiB":
            break
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def count_in_words(count: int, noun: str = "file") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
