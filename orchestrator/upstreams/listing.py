"""A server's tools out of its tools/list replies. One bad item costs that item only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from orchestrator.domain.tools import Tool

_LONGEST_NAME = 256
_MOST_TOOLS = 10_000
_MOST_REASONS = 5
_LARGEST_TOOL_BYTES = 256 * 1024
_LARGEST_LISTING_BYTES = 16 * 1024 * 1024

_T = TypeVar("_T")


class _Malformed(Exception):
    """The message continues "number 3", or whichever it is in the listing."""


class Listing:
    """Takes a listing page by page and keeps of it what a server may reasonably have."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tools: dict[str, Tool] = {}
        self._items = 0
        self._bytes = 0
        self.skipped = 0
        self.reasons: list[str] = []  # of the first ones that were skipped

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    @property
    def problem(self) -> str | None:
        return f"{self.skipped} of its tools are left out: {self.reasons[0]}" if self.skipped else None

    @property
    def full(self) -> bool:
        return self._items >= _MOST_TOOLS or self._bytes >= _LARGEST_LISTING_BYTES

    def read(self, page: Iterable[Any]) -> None:
        """Take the tools of a page, the first of each name; count what is malformed and say why of the first few."""
        for item in page:
            if self.full:
                return
            self._items += 1
            try:
                # "\ud800" alone is valid JSON but no text: nothing made from it could be written to a file or a reply.
                size = len(json.dumps(item, ensure_ascii=False).encode())
                if size > _LARGEST_TOOL_BYTES:
                    raise _Malformed(f"has a description and schemas of more than {_LARGEST_TOOL_BYTES} bytes")
                self._bytes += size
                tool = _tool(self._server, item)
            except (_Malformed, UnicodeEncodeError, RecursionError) as error:
                is_ours = isinstance(error, _Malformed)
                reason = error if is_ours else "holds text that is not valid Unicode or is nested too deeply"
                self.skipped += 1
                if len(self.reasons) < _MOST_REASONS:
                    self.reasons.append(f"number {self._items} {reason}")
            else:
                self._tools.setdefault(tool.name, tool)


def _tool(server: str, item: Any) -> Tool:
    """Read one item. Only name and inputSchema must be right; anything else that is malformed is left out."""
    if not isinstance(item, dict):
        raise _Malformed("is not an object")
    name, input_schema = item.get("name"), item.get("inputSchema")
    if not isinstance(name, str) or not name.strip():
        raise _Malformed("has no name")
    if len(name) > _LONGEST_NAME:
        raise _Malformed(f"has a name of more than {_LONGEST_NAME} characters")
    if not isinstance(input_schema, dict):
        raise _Malformed(f"({name}) has no inputSchema")
    return Tool(
        server=server,
        name=name,
        description=_if_it_is(str, item.get("description")) or "",
        input_schema=input_schema,
        output_schema=_if_it_is(dict, item.get("outputSchema")),
        annotations=_if_it_is(dict, item.get("annotations")) or {},
        title=_if_it_is(str, item.get("title")),
    )


def _if_it_is(kind: type[_T], value: Any) -> _T | None:
    return value if isinstance(value, kind) else None
