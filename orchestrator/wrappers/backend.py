"""What a language must be able to write; each language implements it once, and nothing else asks which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.domain.names import Names
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.contract import Contract


@dataclass(frozen=True, slots=True)
class ToolModule:
    """What a server's index says of one tool's module."""

    tool: Tool
    name: str
    types: tuple[str, str]


class LanguageBackend(Protocol):
    @property
    def index_file(self) -> str:
        """Name the file with which a server's folder becomes importable."""

    def tool_module(self, contract: Contract) -> str:
        """Write the typed source that calls one tool."""

    def stale_skill(self, name: str, version: str, drift: Sequence[str]) -> str:
        """Write a module in the place of a skill that cannot be imported, because tools changed under it."""

    def server_index(self, modules: Sequence[ToolModule], *, of_skills: bool = False) -> str:
        """Write the module that offers all tools of one server, or all skills."""

    def discovery(self, names: Names) -> str:
        """Write the module by which a program finds out which servers and tools there are."""

    def import_line(self, contract: Contract) -> str: ...

    def signature(self, contract: Contract) -> str:
        """Write the tool's types on one line, short enough for a model to read."""

    def example_call(self, contract: Contract) -> str:
        """Write a call with everything that the tool requires, and its import."""


def directory(names: Names) -> dict[str, dict[str, object]]:
    """Return identifiers, each with the name that the server or tool has outside."""
    return {
        server: {
            "name": next(iter(tools.values())).server,
            "tools": {identifier: tool.name for identifier, tool in tools.items()},
        }
        for server, tools in names.tools.items()
        if tools
    }
