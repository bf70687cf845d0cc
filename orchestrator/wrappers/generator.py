"""Writes the wrappers of the tools that a role may use."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from orchestrator.domain.execution import Language
from orchestrator.domain.names import Collision, Names
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import python, typescript
from orchestrator.wrappers.contract import Contract
from orchestrator.wrappers.discovery import python_discovery, typescript_discovery
from orchestrator.wrappers.shapes import Shape
from orchestrator.wrappers.text import python_docstring, python_literal, typescript_comment

ENDINGS = {Language.TYPESCRIPT: ".ts", Language.PYTHON: ".py"}


@dataclass(frozen=True, slots=True)
class Wrappers:
    """Files by their path relative to the workspace, and what had to be left out."""

    files: Mapping[str, str]
    digest: str
    collisions: tuple[Collision, ...] = ()

    def files_in(self, language: Language) -> Mapping[str, str]:
        return {path: text for path, text in self.files.items() if path.endswith(ENDINGS[language])}


@dataclass(frozen=True, slots=True)
class _Written:
    tool: Tool
    shape: Shape | None
    server: str
    name: str
    types: tuple[str, str]
    typescript: str
    python: str

    def still_holds(self, tool: Tool, shape: Shape | None) -> bool:
        try:
            return self.tool == tool and self.shape == shape
        except RecursionError:
            return False


class WrapperGenerator:
    """Remembers what it wrote for each tool, for as long as the tool stays the same."""

    def __init__(self, max_remembered: int = 20_000) -> None:
        self._max_remembered = max_remembered
        self._written: dict[tuple[str, str], _Written] = {}
        self.written_count = 0

    def generate(self, tools: Iterable[Tool], observed: Mapping[str, Shape] | None = None) -> Wrappers:
        names = Names.of(tools)
        shapes = observed or {}
        files: dict[str, str] = {}
        for server, named in names.tools.items():
            written = [self._write(tool, shapes.get(tool.path)) for tool in named.values()]
            files.update(_server_files(server, written))
        files["servers/discovery.ts"] = typescript_discovery(names)
        files["servers/discovery.py"] = python_discovery(names)
        return Wrappers(files, _digest(files), names.collisions)

    def _write(self, tool: Tool, shape: Shape | None) -> _Written:
        key = (tool.server, tool.name)
        known = self._written.pop(key, None)
        written = known if known and known.still_holds(tool, shape) else self._write_anew(tool, shape)
        # Put back last, so that the first is always the one that was not needed for longest.
        self._written[key] = written
        if len(self._written) > self._max_remembered:
            del self._written[next(iter(self._written))]
        return written

    def _write_anew(self, tool: Tool, shape: Shape | None) -> _Written:
        self.written_count += 1
        try:
            return _written(tool, shape, Contract.of(tool, shape))
        except Exception:  # whatever its schema does to us, it must not take the other tools away
            return _written(tool, shape, Contract.of(replace(tool, input_schema={}, output_schema=None), None))


def _written(tool: Tool, shape: Shape | None, contract: Contract) -> _Written:
    types = (contract.input_type, contract.output_type)
    sources = typescript.typescript_module(contract), python.python_module(contract)
    return _Written(tool, shape, contract.server, contract.name, types, *sources)


def generate(tools: Iterable[Tool], observed: Mapping[str, Shape] | None = None) -> Wrappers:
    return WrapperGenerator().generate(tools, observed)


def _digest(files: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        for part in (path, files[path]):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.hexdigest()


def _server_files(server: str, written: list[_Written]) -> Iterator[tuple[str, str]]:
    for tool in written:
        yield f"servers/{server}/{tool.name}.ts", tool.typescript
        yield f"servers/{server}/{tool.name}.py", tool.python
    yield f"servers/{server}/index.ts", _typescript_index(written)
    yield f"servers/{server}/__init__.py", _python_index(written)


def _typescript_index(written: list[_Written]) -> str:
    about = typescript_comment(f"All tools of the server {written[0].tool.server!r}.") if written else ""
    # Two tools, such as get_user and getUser, may have types of the same name; those stay in their own modules.
    counts = Counter(name for tool in written for name in tool.types)
    lines = [f"export {{ {', '.join(_exported(tool, counts))} }} from './{tool.name}.js';\n" for tool in written]
    return f"{typescript.HEADER}{about}{''.join(lines)}"


def _exported(tool: _Written, counts: Mapping[str, int]) -> list[str]:
    return [tool.name, *(f"type {name}" for name in tool.types if counts[name] == 1)]


def _python_index(written: list[_Written]) -> str:
    about = python_docstring(f"All tools of the server {written[0].tool.server!r}.") if written else ""
    imports = "".join(f"    from .{tool.name} import {tool.name} as {tool.name}\n" for tool in written)
    listed = python_literal([tool.name for tool in written])
    return (
        f"{python.HEADER}{about}\n"
        "from .._lazy import load_tools_when_used as _load_tools_when_used\n\n"
        f"TYPE_CHECKING = False\nif TYPE_CHECKING:\n{imports or '    pass'}\n"
        f"__all__ = {listed}\n\n_load_tools_when_used(__name__)\n"
    )
