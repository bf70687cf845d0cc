"""JSON of strangers, parsed so that neither the event loop nor the memory suffers from what it holds.

The parser of the standard library is written in C and keeps the interpreter lock to its end, from a thread too, unless
it has Python to call in between. And a megabyte of "[],[]," becomes thirty megabytes of lists.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from dataclasses import dataclass
from math import isfinite
from typing import Any

Text = bytes | bytearray

_MOST_VALUES = 1_000_000
_WINDOW_CHARACTERS = 16 * 1024
_MOST_WITHOUT_A_CALL = 50_000
_CALLS_PYTHON = re.compile("[0-9}]")  # where a number or an object ends


def _finite(digits: str) -> float | None:
    """Read 1e999 as null: Python's writer would write it as Infinity, which is not JSON."""
    number = float(digits)
    return number if isfinite(number) else None


# NaN and the infinities are not JSON, though Python's servers write them; like JavaScript's writer, say null. Made
# once, because making one takes as long as a small message.
_decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


@dataclass(eq=False)
class TooManyValues(Exception):
    """The text is small enough, but what it says is not."""

    most: int


def parse(raw: Text) -> Any:
    """Parse what is small."""
    return _decoder.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))


def parse_patiently(raw: Text) -> Any:
    """Parse what is large, in a thread: other threads get their turn at least every few milliseconds."""
    text = raw.decode(json.detect_encoding(raw), "surrogatepass")
    if _longest_stretch(text) > _MOST_WITHOUT_A_CALL:
        return _InPython().decode(text)
    # Hooks, most of which change nothing: they are what the parser calls in between.
    return json.loads(
        text,
        parse_constant=lambda _: None,
        parse_int=lambda digits: int(digits),  # noqa: PLW0108  (int itself would be called from C)
        parse_float=_finite,
        object_hook=lambda value: value,
    )


def _longest_stretch(text: str) -> int:
    """Return how many values follow each other, at most, without a call of a hook; raise TooManyValues."""
    longest = stretch = values = start = 0
    in_string = False
    while start < len(text):
        window = text[start : start + _WINDOW_CHARACTERS]
        if (len(window) - len(window.rstrip("\\"))) % 2:  # an escape is not cut in two
            window = text[start : start + _WINDOW_CHARACTERS + 1]
        start += len(window)
        if "\\" in window:
            window = window.replace("\\\\", "").replace('\\"', "")
        parts = window.split('"')
        outside = "".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        commas, lists = outside.count(","), outside.count("[")
        values += commas + lists + outside.count("{")
        if values > _MOST_VALUES:
            raise TooManyValues(_MOST_VALUES)
        stretch += commas + lists + len(parts)
        longest = max(longest, stretch)
        if _CALLS_PYTHON.search(outside):
            stretch = 0
    return longest


class _InPython(json.JSONDecoder):
    """Slower, but written in Python down to the empty list; only strings are read in C."""

    def __init__(self) -> None:
        super().__init__(parse_constant=lambda _: None, parse_float=_finite)
        self.parse_array = json.decoder.JSONArray  # type: ignore[attr-defined]
        self.parse_object = json.decoder.JSONObject  # type: ignore[attr-defined]
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
