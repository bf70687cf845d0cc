"""Compares types as compilers spell them, by what JSON they can be: only types with nothing in common surely clash."""

from __future__ import annotations

import re

# None: it may be anything.
Kinds = frozenset[str] | None

_WORDS = {
    "string": "string", "number": "number", "boolean": "boolean", "true": "boolean", "false": "boolean",
    "bigint": "bigint", "symbol": "symbol", "str": "string", "int": "number", "float": "number", "bool": "number",
    "bytes": "bytes",
}  # fmt: skip
_STRING = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_NUMBER = re.compile(r"-?\d[\d.e+]*")
_LIST = re.compile(r"(?:list|tuple|set)\[.*\]", re.DOTALL)
_DICT = re.compile(r"dict\[.*\]", re.DOTALL)
_LITERAL = re.compile(r"Literal\[(.*)\]", re.DOTALL)
_GENERATED = re.compile(r"[A-Z]\w*(?:Input|Output|Observed)\w*")
_OPEN, _CLOSE = "([{<", ")]}>"


def surely_clash(given: str, wanted: str) -> bool:
    """Tell whether no value of one type can be of the other."""
    literals, wanted_literals = _literals(given), _literals(wanted)
    if literals is not None and wanted_literals is not None:
        return not literals & wanted_literals
    kinds, wanted_kinds = kinds_of(given), kinds_of(wanted)
    return kinds is not None and wanted_kinds is not None and not kinds & wanted_kinds


def kinds_of(spelled: str) -> Kinds:
    found: set[str] = set()
    for option in _options(spelled):
        kind = _kind(option)
        if kind is None:
            return None
        found.add(kind)
    return frozenset(found)


def _kind(option: str) -> str | None:
    if option in _WORDS:
        return _WORDS[option]
    if _STRING.fullmatch(option):
        return "string"
    if _NUMBER.fullmatch(option):
        return "number"
    if option.endswith("[]") or _LIST.fullmatch(option) or (option[:1] == "[" and option[-1:] == "]"):
        return "list"
    if option.startswith("Promise<"):
        return "promise"
    if _DICT.fullmatch(option) or _GENERATED.fullmatch(option) or (option[:1] == "{" and option[-1:] == "}"):
        return "object"
    if inner := _LITERAL.fullmatch(option):
        kinds = {_kind(each) for each in _split(inner[1], ",")}
        return kinds.pop() if len(kinds) == 1 else None
    return None


def _literals(spelled: str) -> set[str] | None:
    """Return the values, if the type is nothing but a choice of strings or of numbers."""
    found: set[str] = set()
    for option in _options(spelled):
        inner = _LITERAL.fullmatch(option)
        for each in _split(inner[1], ",") if inner else [option]:
            if not (_STRING.fullmatch(each) or _NUMBER.fullmatch(each)):
                return None
            found.add(each.replace("'", '"'))
    return found


def _options(spelled: str) -> list[str]:
    return _split(spelled, "|")


def _split(text: str, separator: str) -> list[str]:
    """Split at the separators that are in no bracket and in no quotes."""
    parts, depth, begin, quote = [], 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [part for part in (*parts, text[begin:].strip()) if part]
