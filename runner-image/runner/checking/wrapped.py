"""What the generated wrappers in the workspace say about the tools."""

from __future__ import annotations

import json
import os
import re
from functools import cached_property

_SIGNATURE = re.compile(r'^ +signature: ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_RULE = re.compile(r"^ +rule: (\{.*\}),$", re.MULTILINE)
_TYPE = re.compile(r"^(?:export )?type (\w+) =", re.MULTILINE)
_OUTPUT = re.compile(r"^export type \w+Output = (.*?);\n\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# What the generator writes above a type that the server does not promise.
OBSERVED = "Observed in earlier results"
# Skills are wrapped as the tools of a server are, in a folder of their own.
SKILLS = "skills"


class Servers:
    """The servers and tools that the program can import, read from their folders."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._folder = f"{workspace}/servers"

    @cached_property
    def names(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and entry.name != "__pycache__"]

    def tools(self, server: str, suffix: str) -> list[str]:
        """Return the tools of a server, or all skills; none of a server that is not there."""
        try:
            names = os.listdir(self._folder_of(server)) if server in (SKILLS, *self.names) else []
        except OSError:
            names = []
        index = ("index.ts", "__init__.py")
        return [name.removesuffix(suffix) for name in names if name.endswith(suffix) and name not in index]

    def source(self, server: str, tool: str, suffix: str) -> str:
        try:
            with open(f"{self._folder_of(server)}/{tool}{suffix}", encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _folder_of(self, server: str) -> str:
        return f"{self.workspace}/{SKILLS}" if server == SKILLS else f"{self._folder}/{server}"


class TypeScriptTool:
    """How a tool's wrapper in TypeScript spells its signature and its types."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source

    @cached_property
    def signature(self) -> str:
        found = _SIGNATURE.search(self._source)
        return str(json.loads(found[1])) if found else ""

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(_TYPE.findall(self._source))

    @cached_property
    def is_closed_inside(self) -> bool:
        """Tell whether no object within its arguments takes more than what is named."""
        rule = _RULE.search(self._source)
        named, closed = (
            rule[1].count(word) if rule else 0 for word in (" properties: {", " additionalProperties: false")
        )
        is_open_itself = rule is not None and not rule[1].endswith(" additionalProperties: false }")
        return closed + is_open_itself == named

    def promises(self, spelled: str) -> bool:
        """Tell whether the type is that of its result or of a part of it, and what the server says of itself."""
        if OBSERVED in self._source:
            return False
        if spelled in self.types:
            return "Output" in spelled
        return spelled[:1] == "{" and _plain(spelled) in self._output

    @cached_property
    def _output(self) -> str:
        found = _OUTPUT.search(self._source)
        return _plain(_COMMENT.sub("", found[1])) if found else ""


def _plain(spelled: str) -> str:
    """Leave out what compilers and people do differently."""
    return re.sub(r"\s+", "", spelled)
