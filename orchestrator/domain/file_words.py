"""What is said of files, in the same words wherever it is said."""

from __future__ import annotations

from orchestrator.domain.files import FileLimits, LeftOut, Why

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
    Why.ELSEWHERE: "in /workspace; only what is in /workspace/out is kept",
    Why.LOST: "changed while it was handed over, or the sandbox had ended",
}


def why_in_words(left_out: LeftOut, limits: FileLimits | None = None) -> str:
    """Say why a file was not kept: its size if that is known, the reason, and the limit that it is over."""
    size = f"{size_in_words(left_out.bytes)}, " if left_out.bytes else ""
    limit = ""
    if limits is not None:
        over = {
            Why.TOO_LARGE: size_in_words(limits.max_file_bytes),
            Why.TOO_MANY: count_in_words(limits.max_files),
            Why.NO_ROOM: size_in_words(limits.max_total_bytes),
        }
        limit = f"; the limit is {over[left_out.why]}" if left_out.why in over else ""
    return f"{size}{IN_WORDS[left_out.why]}{limit}"


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
