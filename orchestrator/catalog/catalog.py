"""Every upstream server's tools as they were last listed, and what a role sees of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from orchestrator.catalog.disclosure import Disclosure, TokenCounter
from orchestrator.catalog.search import Hit, SearchIndex
from orchestrator.domain.access import Role
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamStatus


class ToolSource(Protocol):
    def tools(self) -> Mapping[str, tuple[Tool, ...]]: ...

    def statuses(self) -> Sequence[UpstreamStatus]: ...


class Catalog:
    def __init__(self, source: ToolSource, counter: TokenCounter) -> None:
        self._source = source
        self._counter = counter
        self._tools: dict[tuple[str, str], Tool] = {}
        self._index = SearchIndex(())
        self.disclosure = Disclosure((), counter)
        self.version = 0

    def refresh(self) -> None:
        """Take over what the upstreams list now; call it when one has listed its tools anew."""
        listed = {(tool.server, tool.name): tool for tools in self._source.tools().values() for tool in tools}
        if listed != self._tools:
            self._tools = listed
            self._index = SearchIndex(tuple(listed.values()))
            self.disclosure = Disclosure(listed.values(), self._counter)
            self.version += 1

    def find(self, server: str, name: str) -> Tool | None:
        return self._tools.get((server, name))

    def visible(self, role: Role) -> tuple[Tool, ...]:
        return tuple(tool for tool in self._tools.values() if role.may_call(tool.server, tool.name))

    def search(self, role: Role, queries: Sequence[str], *, server: str | None, limit: int) -> list[Hit]:
        return self._index.search(
            queries, server=server, limit=limit, visible=lambda tool: role.may_call(tool.server, tool.name)
        )

    def statuses(self) -> Sequence[UpstreamStatus]:
        return self._source.statuses()

    def tools_by_server(self) -> dict[str, int]:
        return {server: len(tools) for server, tools in sorted(self._source.tools().items())}
