"""The wrappers of what a role may call, as files of its sandboxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.generator import WrapperGenerator, Wrappers
from orchestrator.wrappers.shapes import Shape


class VisibleTools(Protocol):
    version: int

    def visible(self, role: Role) -> Sequence[Tool]: ...


class ObservedShapes(Protocol):
    version: int
    shapes: Mapping[str, Shape]

    def publish(self) -> None: ...


class WrapperFiles:
    def __init__(self, catalog: VisibleTools, observations: ObservedShapes) -> None:
        self._catalog = catalog
        self._observations = observations
        self._generator = WrapperGenerator()
        self._written: dict[Role, Wrappers] = {}
        self._written_for: object = None

    @property
    def version(self) -> object:
        self._observations.publish()
        return self._catalog.version, self._observations.version

    def files(self, role: Role, language: Language) -> Mapping[str, str]:
        if self._written_for != (current := self.version):
            self._written, self._written_for = {}, current
        if role not in self._written:
            self._written[role] = self._generator.generate(self._catalog.visible(role), self._observations.shapes)
        return self._written[role].files_in(language)
