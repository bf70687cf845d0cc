"""Where a program has texts, which are its comments, strings and regular expressions: all else in it is code.

Nothing is parsed, and whoever wrote the code may want to mislead this, so what cannot be told for sure counts as code.
All patterns are possessive, and the first text without an end ends the search, so that the time grows with the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.domain.execution import Language


@dataclass(frozen=True, slots=True)
class CodeText:
    """The place of a text in the code, from `start` up to `end`."""

    start: int
    end: int
    is_amid_code: bool = False  # a comment that is followed by code on its last line


def texts_in(code: str, language: Language) -> Iterator[CodeText]:
    """Yield the texts in their order; what a string embeds is code and no part of it."""
    match language:
        case Language.PYTHON:
            return _python_texts(code)
        case Language.TYPESCRIPT:
            return _typescript_texts(code)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# In both languages, a lone carriage return ends a line.
_ESCAPE = r"\\(?:\r\n|.)"
_IN_QUOTES = rf"\"(?:[^\\\"\r\n]|{_ESCAPE})*+\"|'(?:[^\\'\r\n]|{_ESCAPE})*+'"

_PYTHON = re.compile(
    r"(?P<comment>#[^\r\n]*+)|(?P<name>\w++)|"
    rf"(?P<string>\"\"\"(?:[^\\\"]|{_ESCAPE}|\"(?!\"\"))*+\"\"\"|'''(?:[^\\']|{_ESCAPE}|'(?!''))*+'''|"
    rf"(?!\"\"\"|'''){_IN_QUOTES})|(?P<endless>[\"'])",
    re.DOTALL,
)
# Code in a string. Since Python 3.12 it may have comments and the quotes of the string; whatever might make a brace of
# the code look like one of the string has no end here.
_EMBEDDED = re.compile(
    r"\{\{|\}\}|(?P<code>\{(?:[^{}\"'#]|\"[^\"{}]*+\"|'[^'{}]*+'|\{[^{}\"'#]*+\})*+\})|(?P<endless>[{}])"
)


def _python_texts(code: str) -> Iterator[CodeText]:
    prefix, end_of_prefix = "", 0
    for match in _PYTHON.finditer(code):
        if match["endless"]:
            return
        if match["comment"]:
            yield CodeText(*match.span())
        elif match["name"]:
            prefix, end_of_prefix = match["name"], match.end()
        elif end_of_prefix < match.start() or set("fFtT").isdisjoint(prefix):
            yield CodeText(*match.span())
        else:
            embedded = list(_EMBEDDED.finditer(code, *match.span()))
            if any(each["endless"] for each in embedded):
                return
            places = [each.span() for each in embedded if each["code"]]
            starts = [match.start(), *(end for _, end in places)]
            ends = [*(start for start, _ in places), match.end()]
            yield from (CodeText(start, end) for start, end in zip(starts, ends, strict=True))


_TYPESCRIPT = re.compile(
    r"(?P<line_comment>//[^\r\n\u2028\u2029]*+)|"
    r"(?P<comment>/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)|"
    rf"(?P<string>{_IN_QUOTES})|"
    r"(?P<endless>[\"']|/\*)|"
    r"(?P<word>[\w$]++)|"
    r"(?P<sign>\+\+|--|=>|[^\s\w$])",
    re.DOTALL,
)
_REST_OF_TEMPLATE = re.compile(rf"(?:[^`\\$]|{_ESCAPE}|\$(?!\{{))*+(?:`|(?P<code>\$\{{))", re.DOTALL)
_REGEX = re.compile(
    r"/(?:[^/\\\[\r\n\u2028\u2029]|\\[^\r\n\u2028\u2029]|\[(?:[^\]\\\r\n\u2028\u2029]|\\[^\r\n\u2028\u2029])*+\])++/"
)
_LINE = re.compile(r"[^\r\n\u2028\u2029]*+")
_NOTHING_FOLLOWS = re.compile(r"[ \t]*+(?:[\r\n]|\Z)")
_A_VALUE = "value"
# Behind these, a slash begins a regular expression; behind the others, it may also divide; behind a value, it divides.
_BEFORE_A_VALUE = _words(
    "( , = => : [ & | ? { ; + - * / % < ~ ^ return typeof case do else in delete void throw new instanceof"
)
_BEFORE_EITHER = _words(") } ! > ++ -- of await yield")


def _typescript_texts(code: str) -> Iterator[CodeText]:
    at, before = 0, ";"
    open_braces: list[int] = []  # in the code that each template around this place embeds
    while match := _TYPESCRIPT.search(code, at):
        start, at = match.span()
        sign, last, before = match["sign"], before, match["sign"] or match["word"] or _A_VALUE
        if match["endless"]:
            return
        if match["line_comment"] or match["comment"]:
            yield CodeText(start, at, is_amid_code=bool(match["comment"]) and not _NOTHING_FOLLOWS.match(code, at))
            before = last
        elif match["string"]:
            yield CodeText(start, at)
        elif match["word"] and last == ".":
            before = _A_VALUE  # the name of a property may be any word
        elif sign == "`" or (sign == "}" and open_braces and not open_braces[-1]):
            if sign == "}":
                open_braces.pop()
            if (rest := _REST_OF_TEMPLATE.match(code, at)) is None:
                return
            at, before = rest.end(), "{" if rest["code"] else _A_VALUE
            open_braces += [0] if rest["code"] else []
            yield CodeText(start, at)
        elif sign in ("{", "}") and open_braces:
            open_braces[-1] += 1 if sign == "{" else -1
        elif sign == "/" and last in _BEFORE_A_VALUE:
            if (regex := _REGEX.match(code, start)) is None:
                return
            at, before = regex.end(), _A_VALUE
            yield CodeText(start, at)
        elif sign == "/" and last in _BEFORE_EITHER:
            line = _LINE.match(code, at)
            # Either way it ends with the line, unless something begins on it that does not.
            if line is None or open_braces or "`" in line[0] or "/*" in line[0] or line[0].endswith("\\"):
                return
            at, before = line.end(), "}"
