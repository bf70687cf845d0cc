"""Finds servers and tools by the names under which they are imported."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from ._client import ask, result_or_awaitable


class _Names(list[str]):
    """A list that may also be awaited, so that async code can await every function of discovery alike."""

    def __await__(self) -> Generator[None, None, list[str]]:
        yield from ()
        return self


class Directory:
    """The servers and tools that this execution may call, as identifiers with their own names."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._entries = entries

    def servers(self) -> list[str]:
        return _Names(self._entries)

    def tools(self, server: str | None) -> list[str]:
        if server is None:
            return _Names(f"{each}/{tool}" for each in self._entries for tool in self.tools(each))
        entry = self._entry(server)
        if not entry:
            from ._names import instead

            raise ValueError(f"There is no server '{server}'{instead(server, 'there are', list(self._entries))}")
        return _Names(entry["tools"])

    def search(self, query: str | list[str], **options: Any) -> list[dict[str, Any]]:
        given = {name: value for name, value in options.items() if value is not None}
        if "server" in given:
            given["server"] = self._server_name(given["server"])
        body = json.dumps({"query": query, **given})

        def tools() -> Any:
            found = ask("/search", body)
            return found if isinstance(found, list) else found.get("tools", [])

        found: list[dict[str, Any]] = result_or_awaitable(tools)
        return found

    def info(self, server: str, tool: str) -> dict[str, Any]:
        tools = self._entry(server).get("tools", {})
        about = {"server": self._server_name(server), "tool": tools.get(tool, tool)}
        found: dict[str, Any] = result_or_awaitable(lambda: ask("/info", json.dumps(about), **about))
        return found

    def _entry(self, server: str) -> Mapping[str, Any]:
        """Find a server by its identifier or by its own name; return an empty entry if there is none."""
        by_name = {entry["name"]: entry for entry in self._entries.values()}
        return self._entries.get(server) or by_name.get(server) or {}

    def _server_name(self, server: str) -> str:
        # The gateway gets an unknown name as it is, and says what is wrong with it.
        return str(self._entry(server).get("name", server))
