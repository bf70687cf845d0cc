"""Finds the calls in a TypeScript program, by its brackets alone; strings, templates and comments are passed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|(?P<template>`)|(?P<bracket>[][(){}])""", re.DOTALL
)
_CALLEE = re.compile(r"(?:([\w$]+)\s*\.\s*)?([\w$]+)\s*$")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_LONGEST_NAME = 200


class Call(NamedTuple):
    """The arguments of one call: between which characters they stand."""

    begin: int
    end: int
    tool: str


class Calls:
    """The calls of tools, as far as brackets tell."""

    def __init__(self, code: str, tool_named: Callable[[str | None, str], str | None]) -> None:
        self._code = code
        self._brackets: list[tuple[int, int, str]] = []
        self.calls: list[Call] = []
        self._read()
        for begin, end, kind in self._brackets:
            callee = _CALLEE.search(code[max(0, begin - _LONGEST_NAME) : begin]) if kind == "(" else None
            if callee and (tool := tool_named(callee[1], callee[2])):
                self.calls.append(Call(begin, end, tool))

    def with_argument_at(self, place: int) -> Call | None:
        """Return the call whose own argument stands at this place, not one that is passed on inside of it."""
        around = [(begin, end) for begin, end, kind in self._brackets if kind == "(" and begin < place < end]
        innermost = max(around, default=None)
        return next((call for call in self.calls if (call.begin, call.end) == innermost), None)

    def literal_at(self, place: int) -> str:
        """Return the object that is written at this place; empty if there is none."""
        return next((self._code[begin : end + 1] for begin, end, kind in self._brackets if begin == place), "")

    def is_tried(self, place: int) -> bool:
        """Tell whether a failure there is provided for."""
        around = (begin for begin, end, kind in self._brackets if kind == "{" and begin < place < end)
        return any(re.search(r"\btry\s*$", self._code[max(0, begin - 20) : begin]) for begin in around)

    def _read(self) -> None:
        open_: list[tuple[int, str]] = []
        for place, bracket in self._tokens():
            if bracket in _PAIRS:
                if not open_ or open_[-1][1] != _PAIRS[bracket]:
                    self._brackets.clear()  # not understood, so nothing is said of it
                    return
                begin, kind = open_.pop()
                self._brackets.append((begin, place, kind))
            else:
                open_.append((place, bracket))

    def _tokens(self) -> Iterator[tuple[int, str]]:
        place = 0
        while found := _SKIPPED.search(self._code, place):
            place = found.end()
            if found["template"]:
                place = self._end_of_template(place)
            elif found["bracket"]:
                yield found.start(), found["bracket"]

    def _end_of_template(self, place: int) -> int:
        """Pass over a template with what is inserted into it: no argument that a compiler complains of begins there."""
        depth = 0
        while place < len(self._code):
            character = self._code[place]
            if character == "\\":
                place += 1
            elif character == "`" and depth == 0:
                return place + 1
            elif character == "`":
                place = self._end_of_template(place + 1) - 1
            elif self._code.startswith("${", place):
                depth += 1
                place += 1
            elif character == "{" and depth:
                depth += 1
            elif character == "}" and depth:
                depth -= 1
            place += 1
        return place
