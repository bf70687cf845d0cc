"""What the generated wrappers in the workspace say about the tools."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cached_property

_SIGNATURE = re.compile(r'^ +signature: ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_TYPE = re.compile(r"^(?:export )?type (\w+) =", re.MULTILINE)


class Servers:
    """The servers and tools that the program can import, read from their folders."""

    def __init__(self, workspace: str) -> None:
        self._folder = f"{workspace}/servers"

    @cached_property
    def names(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("_")]

    def tools(self, server: str, suffix: str) -> list[str]:
        names = os.listdir(f"{self._folder}/{server}") if server in self.names else []
        index = ("index.ts", "__init__.py")
        return [name.removesuffix(suffix) for name in names if name.endswith(suffix) and name not in index]

    def source(self, server: str, tool: str, suffix: str) -> str:
        try:
            with open(f"{self._folder}/{server}/{tool}{suffix}", encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""


class TypeScriptTool:
    """How a tool's wrapper in TypeScript spells its signature, and the names of its types."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source

    @cached_property
    def signature(self) -> str | None:
        found = _SIGNATURE.search(self._source)
        return str(json.loads(found[1])) if found else None

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(_type_names(self._source))


def _type_names(source: str) -> Iterator[str]:
    yield from _TYPE.findall(source)
