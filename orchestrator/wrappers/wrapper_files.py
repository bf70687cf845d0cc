"""The wrappers of what a role may call, as files of its sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Protocol

from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.generator import WrapperGenerator, Wrappers
from orchestrator.wrappers.shapes import Shape


class VisibleTools(Protocol):
    version: int

    def importable(self, role: Role) -> Sequence[Tool]: ...


class ObservedShapes(Protocol):
    version: int

    def shapes(self, role: str) -> Mapping[str, Shape]: ...


class WrapperFiles:
    def __init__(self, latest: Callable[[], VisibleTools], observations: ObservedShapes) -> None:
        self._latest = latest
        self._observations = observations
        self._generator = WrapperGenerator()
        self._written: dict[Role, Wrappers] = {}
        self._written_for: object = None
        self._writing = Lock()  # the generator remembers what it wrote, and threads may want files at the same time

    @property
    def version(self) -> object:
        return self._latest().version, self._observations.version

    def files(self, role: Role, language: Language) -> Mapping[str, str]:
        with self._writing:
            if self._written_for != (current := self.version):
                self._written, self._written_for = {}, current
            if role not in self._written:
                shapes = self._observations.shapes(role.name)
                self._written[role] = self._generator.generate(self._latest().importable(role), shapes)
            return self._written[role].files_in(language)
