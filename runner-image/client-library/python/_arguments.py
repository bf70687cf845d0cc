"""Checks arguments before they are sent, and rejects only what is certainly wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# A small subset of JSON Schema.
Rule = Mapping[str, Any]

_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "a list",
    "object": "a dict",
    "null": "None",
}


def problems(rule: Rule, value: Any, path: str = "") -> list[str]:
    """Return a sentence for each thing that is wrong with the value."""
    if not _fits(rule, value):
        return [f"`{path}` must be {_expected(rule)}, not {_shown(value)}."]
    if "items" in rule and isinstance(value, list | tuple):
        found = (problems(rule["items"], item, f"{path}[{index}]") for index, item in enumerate(value))
        return next(filter(None, found), [])
    return list(_object_problems(rule, value, path)) if "properties" in rule and isinstance(value, dict) else []


def _object_problems(rule: Rule, value: Mapping[str, Any], path: str) -> Iterator[str]:
    inside = f"{path}." if path else ""
    missing = [name for name in rule.get("required", ()) if name not in value]
    unknown = [name for name in value if name not in rule["properties"]]
    for name in missing:
        yield f"`{inside}{name}` is required."
    for name in value:
        if name not in unknown:
            yield from problems(rule["properties"][name], value[name], f"{inside}{name}")
        elif rule.get("additionalProperties") is not True:
            free = (candidate for candidate in rule["properties"] if candidate not in value)
            meant = next((candidate for candidate in free if _is_typo(str(name), candidate)), None)
            if meant is None and len(missing) == len(unknown) == 1:
                meant = missing[0]
            if meant is not None:
                yield f"`{inside}{name}` is unknown; did you mean `{meant}`?"
            elif rule.get("additionalProperties") is False:
                yield f"`{inside}{name}` is unknown."


def _expected(rule: Rule) -> str:
    if "anyOf" in rule:
        return " or ".join(map(_expected, rule["anyOf"]))
    if "enum" in rule:
        return f"one of {', '.join(map(repr, rule['enum']))}"
    return _KINDS[rule["type"]]


def _shown(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"
    text = repr(value)
    return f"{text[:60]}…" if len(text) > 60 else text


def _fits(rule: Rule, value: Any) -> bool:
    """Tell whether the value is one of the rule's kinds, whatever it holds."""
    if "anyOf" in rule:
        return any(not problems(option, value) for option in rule["anyOf"])
    if "enum" in rule:
        return _is_among(value, rule["enum"])
    return "type" not in rule or _is_of_type(rule["type"], value)


def _is_among(value: Any, constants: Iterable[Any]) -> bool:
    # For Python True is 1, for JSON it is not.
    return any(value == constant and isinstance(value, bool) == isinstance(constant, bool) for constant in constants)


def _is_of_type(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    match kind:
        case "integer":
            return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        case "number":
            return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        case "array":
            return isinstance(value, list | tuple)
        case "string":
            return isinstance(value, str)
        case "object":
            return isinstance(value, dict)
        case _:
            return kind == "null" and value is None


def without_absent(rule: Rule, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out each None, which stands for an argument that is not given, unless the tool takes null."""
    properties, required = rule.get("properties", {}), rule.get("required", ())
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or not problems(properties.get(name, {}), None)
    }


def _is_typo(name: str, candidate: str) -> bool:
    first, second = (re.sub("[-_ ]", "", text).lower() for text in (name, candidate))
    shorter = min(len(first), len(second))
    return first == second or (shorter >= 4 and _distance(first, second) <= (2 if shorter >= 8 else 1))


def _distance(first: str, second: str) -> int:
    """Count the characters that have to be inserted, removed, replaced or swapped with their neighbour."""
    if abs(len(first) - len(second)) > 2:
        return 3
    before: list[int] = []
    above = list(range(len(second) + 1))
    for row, one in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            current.append(min(current[-1] + 1, above[column] + 1, above[column - 1] + (one != other)))
            if before and column > 1 and one == second[column - 2] and first[row - 2] == other:
                current[-1] = min(current[-1], before[column - 2] + 1)
        before, above = above, current
    return above[-1]
