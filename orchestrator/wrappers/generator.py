"""Writes the wrappers of the tools that a role may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from orchestrator.domain.access import SKILLS
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
        every = list(tools)
        skills = [tool for tool in every if tool.skill is not None]
        names = Names.of(tool for tool in every if tool.skill is None)
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
        return Wrappers({**files, **self.skill_files(skills)}, names.collisions)

    def skill_files(self, skills: Iterable[Tool]) -> dict[str, str]:
        """Write what programs import skills from: the typed functions, and what says that a skill is stale."""
        files: dict[str, str] = {}
        modules: list[ToolModule] = []
        for tool in sorted(skills, key=lambda tool: tool.name):
            traits = tool.skill
            assert traits is not None  # noqa: S101  (these are skills)
            if not traits.drift:
                written = self._write(tool, None)
                sources = written.sources
                modules.append(written.module)
            else:
                sources = {
                    language: backend.stale_skill(tool.name, traits.version, traits.drift)
                    for language, backend in BACKENDS.items()
                }
                modules.append(ToolModule(tool, tool.name, ("", "")))  # its module has no types
            files |= {f"{SKILLS}/{tool.name}{language.suffix}": source for language, source in sources.items()}
        if modules:
            for backend in BACKENDS.values():
                files[f"{SKILLS}/{backend.index_file}"] = backend.server_index(modules, of_skills=True)
        return files

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
