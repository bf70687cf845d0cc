"""Finds what stands around a place in a TypeScript program, by its brackets alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|(?P<slash>/)|(?P<tick>`)|(?P<bracket>[][(){}])""",
    re.DOTALL,
)
_IN_TEMPLATE = re.compile(r"\\.|(?P<end>`)|(?P<inserted>\$\{)", re.DOTALL)
_REGULAR_EXPRESSION = re.compile(r"/(?:[^/\\[\n]|\\.|\[(?:[^]\\\n]|\\.)*\])+/")
# After these a slash begins a regular expression; after names, numbers and closing brackets it divides.
_BEFORE_EXPRESSION = re.compile(
    r"(?:[=(,:[!&|?{};+*%<>~^-]|\b(?:return|typeof|case|in|of|await|void|delete|do|else))\s*$|^\s*$"
)
_CALLEE = re.compile(r"(?:([\w$]+)\s*\.\s*)?([\w$]+)\s*$")
_TRY = re.compile(r"\btry\s*$")
_CATCH = re.compile(r"\s*catch\s*(?:\([^)]*\)\s*)?(?=\{)")
# Statements that only tell of a failure, which does not provide for it.
_ERROR_NAME = re.compile(r"\bcatch\s*\(\s*([\w$]+)[^)]*\)\s*$")
_NAME = re.compile(r"(?<![\w$.])[A-Za-z_$][\w$]*")
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_TELLING = {"console", "process", "throw", "new", "Error", "String", "instanceof", "as", "any", "JSON"}
_REPORT = re.compile(r"\s*(?:console\.\w+\(|process\.exit\(|throw\b)")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_LONGEST_NAME = 200


def _inserted(text: re.Match[str]) -> str:
    """Return what a template inserts; a plain string inserts nothing."""
    return " ".join(re.findall(r"\$\{([^}]*)\}", text[0])) if text[0][0] == "`" else ""


class Span(NamedTuple):
    """What stands between two brackets, which are at its ends."""

    begin: int
    end: int
    kind: str


class Spans:
    def __init__(self, code: str) -> None:
        self._code = code

    def tool_with_argument_at(self, place: int, tool_named: Callable[[str | None, str], str | None]) -> str | None:
        """Return the tool whose own argument stands at this place, not one that is passed on inside of it."""
        innermost = max((span for span in self._around(place) if span.kind == "("), default=None)
        if innermost is None:
            return None
        callee = _CALLEE.search(self._code, max(0, innermost.begin - _LONGEST_NAME), innermost.begin)
        return tool_named(callee[1], callee[2]) if callee else None

    def literal_at(self, place: int) -> str:
        """Return the object that is written at this place; empty if there is none."""
        return next((self._code[span.begin : span.end + 1] for span in self._all or () if span.begin == place), "")

    def is_tried(self, place: int) -> bool:
        """Tell whether a failure there is provided for: by a handler that does more than to tell of it."""
        if self._all is None:
            return True
        return any(not self._only_tells(handler) for handler in self._handlers_of(place))

    def is_caught_by_name(self, place: int, name: str) -> bool:
        """Tell whether a handler around the place names the error."""
        if self._all is None:
            return True
        return any(name in self._code[handler.begin : handler.end] for handler in self._handlers_of(place))

    def _handlers_of(self, place: int) -> Iterator[Span]:
        for span in self._around(place):
            if span.kind == "{" and _TRY.search(self._code, max(0, span.begin - _LONGEST_NAME), span.begin):
                catch = _CATCH.match(self._code, span.end + 1)
                if catch is not None:
                    yield from (each for each in self._all or () if each.begin == catch.end())

    def _only_tells(self, handler: Span) -> bool:
        statements = [each for each in re.split(r"[;\n]", self._code[handler.begin + 1 : handler.end]) if each.strip()]
        error = _ERROR_NAME.search(self._code, max(0, handler.begin - _LONGEST_NAME), handler.begin)
        told = {*_TELLING, error[1] if error else ""}
        return bool(statements) and all(
            _REPORT.match(each) and set(_NAME.findall(_TEXT.sub(_inserted, each))) <= told for each in statements
        )

    def _around(self, place: int) -> list[Span]:
        return [span for span in self._all or () if span.begin < place < span.end]

    @cached_property
    def _all(self) -> list[Span] | None:
        """None if the program is not understood; then nothing can be said of it."""
        found, open_ = [], []
        for place, bracket in self._brackets():
            if bracket not in _PAIRS:
                open_.append((place, bracket))
                continue
            if not open_ or open_[-1][1][-1] != _PAIRS[bracket]:
                return None
            begin, kind = open_.pop()
            found.append(Span(begin, place, kind))
        return None if open_ else found

    def _brackets(self) -> Iterator[tuple[int, str]]:
        """Yield the brackets; those in strings, comments and regular expressions do not count."""
        place, in_template = 0, False
        open_: list[bool] = []  # for each bracket, whether it is of what is inserted into a template
        while found := (_IN_TEMPLATE if in_template else _TOKEN).search(self._code, place):
            place = found.end()
            if in_template:
                if found["inserted"]:
                    yield found.start() + 1, "${"
                    open_.append(True)
                in_template = not (found["inserted"] or found["end"])
            elif found["tick"]:
                in_template = True
            elif found["slash"]:
                place = self._end_of_regular_expression(found.start())
            elif found["bracket"]:
                yield found.start(), found["bracket"]
                if found["bracket"] not in _PAIRS:
                    open_.append(False)
                elif open_:
                    in_template = open_.pop()

    def _end_of_regular_expression(self, slash: int) -> int:
        before = self._code[max(0, slash - _LONGEST_NAME) : slash]
        found = _REGULAR_EXPRESSION.match(self._code, slash) if _BEFORE_EXPRESSION.search(before) else None
        return found.end() if found else slash + 1
