"""Writes the wrappers of the tools that a role may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from orchestrator.domain.execution import Language
from orchestrator.domain.names import Collision, Names
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.backend import ToolModule
from orchestrator.wrappers.backends import BACKENDS
from orchestrator.wrappers.contract import Contract
from orchestrator.wrappers.shapes import Shape

# Roles may have seen different results of one tool; what no longer occurs must not be kept for that.
_MAX_VARIANTS = 16
# Schemas are limited where they are read; what is written of one is at most a few times as large.
_MAX_SOURCE_CHARACTERS = 256 * 1024


@dataclass(frozen=True, slots=True)
class Wrappers:
    """Files by their path relative to the workspace, and what had to be left out."""

    files: Mapping[str, str]
    collisions: tuple[Collision, ...] = ()

    def files_in(self, language: Language) -> Mapping[str, str]:
        return {path: text for path, text in self.files.items() if path.endswith(language.suffix)}


@dataclass(frozen=True, slots=True)
class _Written:
    module: ToolModule
    shape: Shape | None
    sources: Mapping[Language, str]

    @classmethod
    def of(cls, tool: Tool, shape: Shape | None) -> _Written:
        try:
            contract = Contract.of(tool, shape)
            sources = {language: backend.tool_module(contract) for language, backend in BACKENDS.items()}
            if max(map(len, sources.values())) > _MAX_SOURCE_CHARACTERS:
                raise ValueError("The source is too long.")
        except Exception:  # whatever its schema does to us, it must not take the other tools away
            contract = Contract.of(replace(tool, input_schema={}, output_schema=None), None)
            sources = {language: backend.tool_module(contract) for language, backend in BACKENDS.items()}
        return cls(ToolModule(tool, contract.name, (contract.input_type, contract.output_type)), shape, sources)

    def still_holds(self, tool: Tool, shape: Shape | None) -> bool:
        try:
            return self.module.tool == tool and self.shape == shape
        except RecursionError:
            return False


class WrapperGenerator:
    """Remembers what it wrote for each tool and each shape that roles have seen of it, until the tool changes."""

    def __init__(self, max_remembered: int = 20_000) -> None:
        self._max_remembered = max_remembered
        self._written: dict[tuple[str, str], dict[bytes, _Written]] = {}
        self._remembered = 0
        self.written_count = 0

    def generate(self, tools: Iterable[Tool], observed: Mapping[str, Shape] | None = None) -> Wrappers:
        names = Names.of(tools)
        shapes = observed or {}
        files: dict[str, str] = {}
        for server, named in names.tools.items():
            written = [self._write(tool, shapes.get(tool.path)) for tool in named.values()]
            for each in written:
                for language, source in each.sources.items():
                    files[f"servers/{server}/{each.module.name}{language.suffix}"] = source
            for backend in BACKENDS.values():
                files[f"servers/{server}/{backend.index_file}"] = backend.server_index(
                    [each.module for each in written]
                )
        for language, backend in BACKENDS.items():
            files[f"servers/discovery{language.suffix}"] = backend.discovery(names)
        return Wrappers(files, names.collisions)

    def _write(self, tool: Tool, shape: Shape | None) -> _Written:
        key, variant = (tool.server, tool.name), shape.digest() if shape else b""
        variants = self._written.pop(key, {})
        written = variants.pop(variant, None)
        self._remembered -= written is not None
        if written is None or not written.still_holds(tool, shape):
            written = _Written.of(tool, shape)
            self.written_count += 1
        # Put back last, so that the first is always the one that was not needed for longest.
        variants[variant] = written
        self._written[key] = variants
        self._remembered += 1
        if len(variants) > _MAX_VARIANTS:
            del variants[next(iter(variants))]
            self._remembered -= 1
        if self._remembered > self._max_remembered:
            self._remembered -= len(self._written.pop(next(iter(self._written))))
        return written


def generate(tools: Iterable[Tool], observed: Mapping[str, Shape] | None = None) -> Wrappers:
    return WrapperGenerator().generate(tools, observed)
