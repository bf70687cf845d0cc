"""What a role's sandboxes find in /workspace/servers: the client library and the wrappers of what the role may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchestrator.domain.access import AccessBook, Role
from orchestrator.domain.execution import Language, Recipe
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.generator import ENDINGS, WrapperGenerator, Wrappers
from orchestrator.wrappers.shapes import Shape

Files = Mapping[str, str]


class VisibleTools(Protocol):
    version: int

    def visible(self, role: Role) -> Sequence[Tool]: ...


class ObservedShapes(Protocol):
    version: int
    shapes: Mapping[str, Shape]

    def publish(self) -> None: ...


class Workspaces:
    """Writes again only when the tools, the role or the observed shapes have changed."""

    def __init__(self, catalog: VisibleTools, observations: ObservedShapes, library: Path) -> None:
        self._catalog = catalog
        self._observations = observations
        self._library = {language: _library_files(library, language) for language in Language}
        self._generator = WrapperGenerator()
        self._written: dict[tuple[Role, Language], tuple[Recipe, Files]] = {}
        self._written_for = (-1, -1)

    def for_role(self, role: Role, language: Language) -> tuple[Recipe, Files]:
        self._forget_if_outdated()
        key = (role, language)
        if key not in self._written:
            self._written[key] = self._write(role, language)
        return self._written[key]

    def recipes(self, book: AccessBook) -> dict[Recipe, Files]:
        """Everything that a warm sandbox could be wanted for."""
        return dict(self.for_role(role, language) for role in book.roles.values() for language in Language)

    def wrappers(self, role: Role) -> Wrappers:
        return self._generator.generate(self._catalog.visible(role), self._observations.shapes)

    def _write(self, role: Role, language: Language) -> tuple[Recipe, Files]:
        wrappers = self.wrappers(role)
        return Recipe(language, wrappers.digest), {**self._library[language], **wrappers.files_in(language)}

    def _forget_if_outdated(self) -> None:
        self._observations.publish()
        current = (self._catalog.version, self._observations.version)
        if current != self._written_for:
            self._written.clear()
            self._written_for = current


def _library_files(library: Path, language: Language) -> Files:
    files = sorted(library.glob(f"*{ENDINGS[language]}"))
    return {f"servers/{file.name}": file.read_text() for file in files}
