"""A server's tools out of its tools/list replies. One bad item costs that item only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.tools import Tool

_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class Listing:
    tools: tuple[Tool, ...]
    skipped: tuple[str, ...]

    @property
    def problem(self) -> str | None:
        if not self.skipped:
            return None
        return f"{len(self.skipped)} of its tools are left out: {self.skipped[0]}"


class _Malformed(Exception):
    pass


def read_listing(server: str, items: Iterable[Any]) -> Listing:
    tools: dict[str, Tool] = {}
    skipped: list[str] = []
    for position, item in enumerate(items, start=1):
        try:
            tool = _tool(server, item)
        except _Malformed as reason:
            skipped.append(f"number {position} {reason}")
        else:
            tools.setdefault(tool.name, tool)
    return Listing(tuple(tools.values()), tuple(skipped))


def _tool(server: str, item: Any) -> Tool:
    if not isinstance(item, dict):
        raise _Malformed("is not an object")
    _require_text(item)
    return Tool(
        server=server,
        name=_name(item),
        description=_text(item.get("description")) or "",
        input_schema=_input_schema(item),
        output_schema=_mapping(item.get("outputSchema")),
        annotations=_mapping(item.get("annotations")) or {},
        title=_text(item.get("title")),
    )


def _require_text(item: Mapping[str, Any]) -> None:
    # "\ud800" alone is valid JSON but no text: nothing that is made from it could be written to a file or a reply.
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise _Malformed("holds text that is not valid Unicode or is nested too deeply") from None


def _name(item: Mapping[str, Any]) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _Malformed("has no name")
    if len(name) > _LONGEST_NAME:
        raise _Malformed(f"has a name of more than {_LONGEST_NAME} characters")
    return name


def _input_schema(item: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = item.get("inputSchema")
    if not isinstance(schema, dict):
        raise _Malformed(f"({item['name']}) has no inputSchema")
    return schema


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
