"""What a server might list to stop the daemon: too much, or little that grows when something is made of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.support.upstream_server import tool

Tools = list[dict[str, Any]]


def many_tools() -> Tools:
    return [tool(f"tool_{number}", description=_made_up_words(300, number)) for number in range(10_000)]


def large_tools() -> Tools:
    """11 MB in 60 tools."""
    described = {"type": "string", "description": "d" * 80}
    return [
        _with_schema(f"large_{number}", {"properties": {f"p{number}_{index}": described for index in range(1500)}})
        for number in range(60)
    ]


def made_up_words() -> Tools:
    return [tool(f"wordy_{number}", description=_made_up_words(3900, number)) for number in range(200)]


def combining_marks() -> Tools:
    """To normalise them is to sort them, in a time that grows with the square of their number."""
    return [tool(f"marked_{number}", title="a" + "\u0301\u0327" * 14_000) for number in range(17)]


def references() -> Tools:
    """900 members that refer to 500."""
    inner = {"type": "object", "properties": {f"b{index}": {"type": "string"} for index in range(500)}}
    outer = {f"a{index}": {"$ref": "#/$defs/A"} for index in range(900)}
    schema = {"properties": outer, "required": [*outer], "$defs": {"A": inner}}
    return [_with_schema(f"refers_{number}", schema) for number in range(10)]


def references_in_a_circle() -> Tools:
    names = [f"b{index}" for index in range(500)]
    circle = {"type": "object", "required": names, "properties": {name: {"$ref": "#/$defs/A"} for name in names}}
    return [_with_schema("circle", {**circle, "$defs": {"A": circle}})]


def combinations() -> Tools:
    """1000 members, each of them in 500 options."""
    schema = {
        "properties": {f"a{index}": {} for index in range(1000)},
        "anyOf": [{"properties": {f"x{index}": {}}} for index in range(500)],
    }
    return [_with_schema(f"combines_{number}", schema) for number in range(30)]


def repeated_types() -> Tools:
    schema = {"type": ["object"] * 2500, "properties": {f"a{index}": {} for index in range(1000)}}
    return [_with_schema(f"repeats_{number}", schema) for number in range(20)]


def repeated_text() -> Tools:
    described = {"properties": {"a": {"description": "d" * 8000}}}
    options = [{"properties": {f"y{index}": {}}, "allOf": [{"$ref": "#/$defs/Q"}]} for index in range(300)]
    return [_with_schema("text", {"properties": {"z": {"anyOf": options}}, "$defs": {"Q": described}})]


GREEDY_SCHEMAS: tuple[Callable[[], Tools], ...] = (
    references,
    references_in_a_circle,
    combinations,
    repeated_types,
    repeated_text,
)


def _with_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return tool(name, inputSchema={"type": "object", **schema})


def _made_up_words(characters: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join("".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(characters // 8))
