"""Shortens what Python prints of an uncaught error to the program's own frames."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import groupby

_STANDARD_LIBRARY = f"{os.path.dirname(os.__file__)}/"
_RUNTIME = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/"
_FRAME = re.compile(r'(?P<margin>[ |+-]*?)  File "(?P<file>[^"\n]+)", line \d+, in ')
_PACKAGE = re.compile(r".*/(?:site|dist)-packages/(?P<name>\w+)")
_LINK = re.compile(
    r"(\n(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\n\n)"
)
# Python marks frames and source by their indentation, in groups of errors behind a margin.
_DETAIL = ("    ", "  [Previous line repeated")
_MAX_NAMES = 3

# The library that a frame is in, or None in the program; and the lines that show the frame.
_Frame = tuple[str | None, list[str]]


def shortened(text: str, workspace: str) -> str:
    """Show frames of libraries as one line, and leave out those above the program's first."""
    first, *rest = _LINK.split(text)
    kept = [_short_block(first, workspace)]
    for link, block in zip(rest[::2], rest[1::2], strict=True):
        short = _short_block(block, workspace)
        # Libraries like to catch an error and to raise the same one again.
        if '  File "' not in kept[-1] and _message(kept[-1]) == _message(short):
            kept[-1] = short
        else:
            kept += [link, short]
    return "".join(kept)


def _message(block: str) -> str:
    return block.rstrip("\n").rpartition("\n")[2]


def _short_block(text: str, workspace: str) -> str:
    """Shorten the trace of one error of a chain."""
    lines: list[str] = []
    frames: list[_Frame] = []
    margin = ""

    def flush() -> None:
        lines.extend(_short_frames(frames, margin))
        frames.clear()

    for line in text.splitlines(keepends=True):
        if found := _FRAME.match(line):
            margin = found["margin"]
            frames.append((_library(found["file"], workspace), [line]))
        elif frames and line.startswith(margin) and line.removeprefix(margin).startswith(_DETAIL):
            frames[-1][1].append(line)
        else:
            flush()
            lines.append(line)
    flush()
    return "".join(lines)


def _short_frames(frames: list[_Frame], margin: str) -> Iterator[str]:
    is_above = any(library is None for library, _ in frames)
    for is_library, run in groupby(frames, key=lambda frame: frame[0] is not None):
        if not is_library:
            is_above = False
            for _, lines in run:
                yield from lines
        elif not is_above:
            yield _summary([str(library) for library, _ in run], margin)


def _summary(libraries: list[str], margin: str) -> str:
    named = [name for name in dict.fromkeys(libraries) if name][:_MAX_NAMES]
    count = f"{len(libraries)} frame{'s' if len(libraries) > 1 else ''}"
    return f"{margin}  … {count}{' in ' if named else ''}{', '.join(named)}\n"


def _library(file: str, workspace: str) -> str | None:
    """Name the library that a file belongs to; None for the program's own."""
    if file.startswith(f"{workspace}/"):
        is_wrapper = file.startswith(f"{workspace}/skills/") and not file.startswith(f"{workspace}/skills/_code/")
        return "servers" if is_wrapper or file.startswith(f"{workspace}/servers/") else None
    if found := _PACKAGE.match(file):
        return found["name"]
    if file.startswith(_RUNTIME):
        return ""
    if file.startswith(_STANDARD_LIBRARY):
        return file.removeprefix(_STANDARD_LIBRARY).partition("/")[0].removesuffix(".py")
    if file.startswith("<frozen "):
        return file.removeprefix("<frozen ").partition(".")[0].rstrip(">")
    # What was compiled to machine code names its source as its authors had it.
    return None if file.startswith(("/", "<")) else file.partition("/")[0]
