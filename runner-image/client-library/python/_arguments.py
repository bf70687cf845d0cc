"""Checks arguments before they are sent. Only what is certainly wrong is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# A small subset of JSON Schema.
Rule = Mapping[str, Any]


def problems(rule: Rule, value: Any, path: str = "") -> list[str]:
    if "anyOf" in rule:
        fit = any(not problems(option, value, path) for option in rule["anyOf"])
        return [] if fit else [_must_be(rule, value, path)]
    if "enum" in rule:
        return [] if _is_among(value, rule["enum"]) else [_must_be(rule, value, path)]
    if "type" in rule and not _fits(rule["type"], value):
        return [_must_be(rule, value, path)]
    if isinstance(value, list | tuple):
        return _item_problems(rule.get("items", {}), value, path)
    return list(_object_problems(rule, value, path)) if "properties" in rule else []


def _item_problems(rule: Rule, items: Iterable[Any], path: str) -> list[str]:
    found = (problems(rule, item, f"{path}[{index}]") for index, item in enumerate(items))
    return next(filter(None, found), [])


def _object_problems(rule: Rule, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in rule.get("required", ()):
        if name not in value:
            yield f"'{_inside(path, name)}' is missing"
    for name, item in value.items():
        if name in rule["properties"]:
            yield from problems(rule["properties"][name], item, _inside(path, name))
        else:
            yield from _unknown_problems(rule, name, value, path)


def _unknown_problems(rule: Rule, name: str, value: Mapping[str, Any], path: str) -> Iterator[str]:
    if rule.get("additionalProperties") is True:
        return
    free = [candidate for candidate in rule["properties"] if candidate not in value]
    meant = next((candidate for candidate in free if _is_typo(str(name), candidate)), None)
    if meant is not None:
        yield f"'{_inside(path, name)}' is not known, did you mean '{meant}'?"
    elif rule.get("additionalProperties") is False:
        yield f"'{_inside(path, name)}' is not known"


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _must_be(rule: Rule, value: Any, path: str) -> str:
    return f"'{path}' must be {_expected(rule)}, not {_shown(value)}"


def _expected(rule: Rule) -> str:
    if "anyOf" in rule:
        return " or ".join(map(_expected, rule["anyOf"]))
    if "enum" in rule:
        return f"one of {', '.join(map(repr, rule['enum']))}"
    return f"of type {rule.get('type')}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"
    text = repr(value)
    return f"{text[:60]}…" if len(text) > 60 else text


def _is_among(value: Any, constants: Iterable[Any]) -> bool:
    # For Python True is 1, for JSON it is not.
    return any(value == constant and isinstance(value, bool) == isinstance(constant, bool) for constant in constants)


def _fits(kind: str, value: Any) -> bool:
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
    """None stands for an argument that is not given, unless the tool takes null."""
    properties, required = rule.get("properties", {}), rule.get("required", ())
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or not problems(properties.get(name, {}), None)
    }


def as_json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, allow_nan=False)


def _is_typo(name: str, candidate: str) -> bool:
    first, second = (re.sub("[-_ ]", "", text).lower() for text in (name, candidate))
    shorter = min(len(first), len(second))
    return first == second or (shorter >= 4 and _distance(first, second) <= (2 if shorter >= 8 else 1))


def _distance(first: str, second: str) -> int:
    """How many characters have to be inserted, removed, replaced or swapped with their neighbour."""
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
