"""Large JSON, checked and passed on as text.

Python's values take up to thirty times as much memory as the text that they are read from, and its parser and writer
hold the interpreter, and with it the event loop, for up to seconds, from a thread too. What is only passed on is
therefore never decoded: a scan checks it and finds its parts, in steps that each hold the interpreter for about a
millisecond, and takes no memory but that of the text.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from math import isinf
from typing import Any, NamedTuple

# As deep as a program's own parser surely follows; Python's stops at about a thousand.
MAX_DEPTH = 500
# Of parts that are nested deeply or are no finite numbers: they are looked at one by one, which takes its time.
MAX_INTRICATE_PARTS = 1_000_000
_WINDOW_BYTES = 32 * 1024
_VISITED_PARTS = 1000
_LONGEST_VISITED_NAME = 200
_LEVELS_IN_ONE_STEP = 4

_SPACE = rb"[ \t\n\r]*+"
_PLAIN = rb'[^"\\\x00-\x1f]'
_ESCAPE = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_STRING = rb'"' + _PLAIN + rb"*+(?:" + _ESCAPE + _PLAIN + rb'*+)*+"'
# Only such as are surely finite: those with more digits are looked at one by one.
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,99}+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]{1,2}+)?+"
_SCALAR = rb"(?:" + _STRING + rb"|" + _NUMBER + rb"|true|false|null)"


def _value(levels: int) -> bytes:
    """Return the pattern of a value that is nested no deeper than so many levels. It never tries anything twice."""
    if levels == 0:
        return _SCALAR
    inner = _value(levels - 1) + _SPACE
    members = rb"(?:" + _STRING + _SPACE + rb":" + _SPACE + inner + rb"(?:," + _SPACE + rb"(?!\})|(?=\})))*+"
    items = rb"(?:" + inner + rb"(?:," + _SPACE + rb"(?!\])|(?=\])))*+"
    return rb"(?:" + _SCALAR + rb"|\{" + _SPACE + members + rb"\}|\[" + _SPACE + items + rb"\])"


_ITEM_AND_COMMA = _value(_LEVELS_IN_ONE_STEP) + _SPACE + rb"," + _SPACE
_ITEMS = re.compile(rb"(?:" + _ITEM_AND_COMMA + rb")*+")
_MEMBERS = re.compile(rb"(?:" + _STRING + _SPACE + rb":" + _SPACE + _ITEM_AND_COMMA + rb")*+")
_SPACES = re.compile(_SPACE)
_CHARACTERS = re.compile(rb"(?:" + _PLAIN + rb"++|" + _ESCAPE + rb")*+")
# Python reads integers of up to 4300 digits.
_ANY_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]{0,4299}+)(\.[0-9]{1,4299}+)?+([eE][+-]?[0-9]{1,4299}+)?+")
_LITERAL = re.compile(rb"true|false|null|(-?Infinity|NaN)")

_OBJECT, _ARRAY, _OBJECT_END, _ARRAY_END = b"{[}]"
_QUOTE, _COMMA, _COLON = b'",:'
_END_OF = {_OBJECT: _OBJECT_END, _ARRAY: _ARRAY_END}

Text = bytes | bytearray
Visit = Callable[[int], int]  # gets where a value starts, returns where it ends


class NotJsonText(ValueError):
    """The text is not JSON, or not such that every program can read it."""


class TooIntricate(NotJsonText):
    """It may be JSON, but to find out would take too long."""


class Span(NamedTuple):
    start: int
    end: int


class JsonObject(Mapping[str, Any]):
    """An object that is kept as its text. Whatever is asked of it decodes all of it, so ask on a thread."""

    __slots__ = ("_values", "text")

    def __init__(self, text: Text) -> None:
        self.text = text
        self._values: Mapping[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def _decoded(self) -> Mapping[str, Any]:
        if self._values is None:
            # The parser gives way to other threads only where it has Python to run: the hook that changes nothing.
            self._values = json.loads(self.text, object_hook=lambda value: value)
        return self._values


class JsonScan:
    """Walks through a text. Positions of values are given and returned without the white space around them."""

    def __init__(self, text: Text, max_intricate_parts: int = MAX_INTRICATE_PARTS) -> None:
        """Raise NotJsonText unless the text is UTF-8."""
        self.text = text
        self._intricate_parts_left = max_intricate_parts
        self._non_finite = array("L")  # where each such number starts and ends
        decoder = codecs.getincrementaldecoder("utf-8")()
        view = memoryview(text)
        try:
            for start in range(0, len(text), _WINDOW_BYTES):
                decoder.decode(view[start : start + _WINDOW_BYTES])
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise NotJsonText("the text is not UTF-8") from error
        finally:
            view.release()

    @property
    def start(self) -> int:
        return self._after_space(len(codecs.BOM_UTF8) if self.text.startswith(codecs.BOM_UTF8) else 0)

    def finish(self, position: int) -> None:
        """Raise NotJsonText if anything follows."""
        if self._after_space(position) != len(self.text):
            raise NotJsonText("there is more than one value")

    def value(self, start: int) -> int:
        """Walk through a value of any kind, and return where it ends."""
        try:
            return self._walk(start, bytearray())
        except IndexError:
            raise NotJsonText("the text ends too early") from None

    def members(self, start: int, visits: Mapping[str, Visit]) -> int:
        """Walk through an object, some of whose members are visited on the way; of many, only the first."""
        text = self.text
        try:
            position = self._after_space(start + 1)
            if text[position] == _OBJECT_END:
                return position + 1
            for _ in range(_VISITED_PARTS):
                name = Span(position, self._string(position))
                position = self._after_colon(name.end)
                visit = visits.get(self._name(name)) or self.value
                position = self._after_space(visit(position))
                if text[position] != _COMMA:
                    break
                position = self._after_space(position + 1)
            else:
                return self._walk(self._after_member_name(position), bytearray((_OBJECT,)))
            if text[position] != _OBJECT_END:
                raise NotJsonText("an object does not end")
            return position + 1
        except IndexError:
            raise NotJsonText("the text ends too early") from None

    def items(self, start: int, visit: Visit) -> int:
        """Walk through an array, whose items are visited on the way; of many, only the first."""
        text = self.text
        try:
            position = self._after_space(start + 1)
            if text[position] == _ARRAY_END:
                return position + 1
            for _ in range(_VISITED_PARTS):
                position = self._after_space(visit(position))
                if text[position] != _COMMA:
                    break
                position = self._after_space(position + 1)
            else:
                return self._walk(position, bytearray((_ARRAY,)))
            if text[position] != _ARRAY_END:
                raise NotJsonText("an array does not end")
            return position + 1
        except IndexError:
            raise NotJsonText("the text ends too early") from None

    def is_object(self, start: int) -> bool:
        return self.text[start : start + 1] == b"{"

    def is_array(self, start: int) -> bool:
        return self.text[start : start + 1] == b"["

    def is_finite(self, span: Span) -> bool:
        return not any(span.start <= start < span.end for start in self._non_finite[::2])

    def take(self, span: Span) -> Text:
        """Return a value as text that is JSON for every reader: what is not a finite number is null.

        A text that can be cut is cut, instead of being copied: afterwards the scan is of no more use.
        """
        if not self.is_finite(span):
            return self._without_non_finite(span)
        if isinstance(self.text, bytes):
            return self.text[span.start : span.end]
        del self.text[span.end :]
        del self.text[: span.start]
        return self.text

    def _without_non_finite(self, span: Span) -> bytearray:
        written, copied, places = bytearray(), span.start, iter(self._non_finite)
        with memoryview(self.text) as view:
            for start, end in zip(places, places, strict=True):
                if span.start <= start < span.end:
                    written += view[copied:start]
                    written += b"null"
                    copied = end
            written += view[copied : span.end]
        return written

    def _walk(self, position: int, open_: bytearray) -> int:
        """Go on where a value is expected, within the containers that are open, to the end of the outermost."""
        text = self.text
        while True:
            self._intricate_parts_left -= 1
            if self._intricate_parts_left < 0:
                raise TooIntricate("it has too many parts that are nested deeply or not finite")
            if (kind := text[position]) in _END_OF:
                open_.append(kind)
                if len(open_) > MAX_DEPTH:
                    raise NotJsonText(f"it is nested deeper than {MAX_DEPTH} levels")
                position = self._after_space(position + 1)
                is_item = text[position] != _END_OF[kind]
            else:
                position = self._scalar(position)
                is_item = False
            while not is_item:
                if open_ and text[position] == _END_OF[open_[-1]]:
                    open_.pop()
                    position += 1
                if not open_:
                    return position
                position = self._after_space(position)
                if text[position] == _COMMA:
                    position = self._after_space(position + 1)
                    is_item = True
                elif text[position] != _END_OF[open_[-1]]:
                    raise NotJsonText("a comma or the end of a container is missing")
            position = self._after_run(position, _MEMBERS if open_[-1] == _OBJECT else _ITEMS)
            if open_[-1] == _OBJECT:
                position = self._after_member_name(position)

    def _after_run(self, position: int, run: re.Pattern[bytes]) -> int:
        """Step over as many items with a comma as there are; never over the last one of a container."""
        while (end := _end(run, self.text, position)) != position:
            position = self._after_space(end)
        return position

    def _after_member_name(self, position: int) -> int:
        return self._after_colon(self._string(position))

    def _after_colon(self, position: int) -> int:
        position = self._after_space(position)
        if self.text[position] != _COLON:
            raise NotJsonText("a colon is missing")
        return self._after_space(position + 1)

    def _after_space(self, position: int) -> int:
        while (end := _end(_SPACES, self.text, position)) == position + _WINDOW_BYTES:
            position = end
        return end

    def _string(self, position: int) -> int:
        if self.text[position] != _QUOTE:
            raise NotJsonText("a string is missing")
        position += 1
        while self.text[end := _end(_CHARACTERS, self.text, position)] != _QUOTE:
            if end == position:
                raise NotJsonText("a string holds what must be escaped")
            position = end
        return end + 1

    def _scalar(self, position: int) -> int:
        if self.text[position] == _QUOTE:
            return self._string(position)
        if (number := _ANY_NUMBER.match(self.text, position)) is not None:
            if (number[1] or number[2]) and isinf(float(number[0])):
                self._non_finite.extend(number.span())
            return number.end()
        if (literal := _LITERAL.match(self.text, position)) is None:
            raise NotJsonText("a value is missing")
        if literal[1]:
            self._non_finite.extend(literal.span())
        return literal.end()

    def _name(self, span: Span) -> str:
        if span.end - span.start > _LONGEST_VISITED_NAME:
            return ""
        return str(json.loads(self.text[span.start : span.end]))


def _end(pattern: re.Pattern[bytes], text: Text, position: int) -> int:
    """Return how far a pattern, which matches also nothing, reaches within one window."""
    match = pattern.match(text, position, position + _WINDOW_BYTES)
    return position if match is None else match.end()
