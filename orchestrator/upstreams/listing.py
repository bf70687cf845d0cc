"""A server's tools out of its tools/list replies. One bad item costs that item only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeVar

from orchestrator.domain.tools import Tool

# Of 80 real servers, the one with most has 46 tools, the largest tool 7 KB and the largest listing 41 KB.
_MOST_TOOLS = 1000
_LARGEST_TOOL_BYTES = 64 * 1024
_LARGEST_LISTING_BYTES = 1024 * 1024
_DEEPEST_LEVEL = 100
_LONGEST_NAME = 256
_MOST_REASONS = 5
_SMALL_VALUE_BYTES = 4

_T = TypeVar("_T")


class _Malformed(Exception):
    """The message continues "number 3", or whichever it is in the listing."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool, and what tells whether it is still the same."""

    tool: Tool
    digest: bytes


class Listing:
    """Takes a listing page by page, in a thread, and keeps of it what a server may reasonably have."""

    def __init__(
        self,
        server: str,
        before: Mapping[str, Listed] | None = None,
        *,
        lists_contents: bool = False,
        withheld: Sequence[str] = (),
    ) -> None:
        self._server = server
        self._lists_contents = lists_contents
        self._withheld = withheld
        self._before = before or {}
        self._items = 0
        self._bytes = 0
        self._unread_pages = False
        self.listed: dict[str, Listed] = {}  # a tool that has not changed is the object that it was before
        self.skipped = 0
        self.reasons: list[str] = []  # of the first ones that were skipped

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(each.tool for each in self.listed.values())

    @property
    def problem(self) -> str | None:
        if not self.skipped:
            return None
        number = f"at least {self.skipped}" if self._unread_pages else self.skipped
        return f"{number} of its tools are left out: {self.reasons[0]}"

    @property
    def full(self) -> bool:
        return self._items >= _MOST_TOOLS or self._bytes >= _LARGEST_LISTING_BYTES

    def read(self, page: Sequence[Any]) -> None:
        """Take the tools of a page, the first of each name; count what is left out and say why of the first few."""
        for position, item in enumerate(page):
            if self.full:
                self._leave_out_the_rest(len(page) - position)
                return
            self._items += 1
            try:
                self._take(item)
            except _Malformed as error:
                self.skipped += 1
                if len(self.reasons) < _MOST_REASONS:
                    self.reasons.append(f"number {self._items} {error}")

    def stop(self) -> None:
        """Note that there are more pages, which are not read."""
        self._unread_pages = True
        if not self.skipped:
            self._leave_out_the_rest(1)

    def _leave_out_the_rest(self, number: int) -> None:
        limits = f"{_MOST_TOOLS} tools or {_LARGEST_LISTING_BYTES} bytes"
        self.skipped += number
        if len(self.reasons) < _MOST_REASONS:
            self.reasons.append(f"number {self._items + 1} and those after it exceed the {limits} of a server")

    def _take(self, item: Any) -> None:
        try:
            self._bytes += _weighed(item)
        except _Malformed:
            self._bytes += _LARGEST_TOOL_BYTES  # if not more: pages of such tools are not read without end
            raise
        tool = _tool(self._server, item)
        if is_withheld(tool.name, self._withheld):
            return
        if self._lists_contents:
            # What it declares is about its structured content, which programs do not get.
            tool = replace(tool, output_schema=None, lists_contents=True)
        if tool.name in self.listed:
            return
        # Members of an object may come in another order each time. The text is no larger than what was weighed.
        digest = sha256(json.dumps(item, sort_keys=True, ensure_ascii=False).encode()).digest()
        before = self._before.get(tool.name)
        same = before is not None and before.digest == digest and before.tool.lists_contents == tool.lists_contents
        self.listed[tool.name] = before if before and same else Listed(tool, digest)


def is_withheld(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _weighed(item: Any) -> int:
    """Return about how many bytes a tool has; raise _Malformed if that is too much, or no text at all.

    Written in Python, value by value: what measures in one go would stop the event loop, thread or no thread.
    """
    size, waiting = 0, [(item, 1)]
    while waiting:
        value, level = waiting.pop()
        if level > _DEEPEST_LEVEL:
            raise _Malformed("is nested too deeply")
        if isinstance(value, dict):
            waiting += [(part, level + 1) for part in value.values()]
            texts = [*value]
        elif isinstance(value, list):
            waiting += [(part, level + 1) for part in value]
            texts = []
        else:
            texts = [value] if isinstance(value, str) else []
            size += value.bit_length() // 3 if isinstance(value, int) else 0
        try:
            # "\ud800" alone is valid JSON but no text: nothing made from it could be written to a file or a reply.
            size += _SMALL_VALUE_BYTES + sum(len(text.encode()) + _SMALL_VALUE_BYTES for text in texts)
        except UnicodeEncodeError:
            raise _Malformed("holds text that is not valid Unicode") from None
        if size + len(waiting) > _LARGEST_TOOL_BYTES:
            raise _Malformed(f"has a description and schemas of more than {_LARGEST_TOOL_BYTES} bytes")
    return size


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
