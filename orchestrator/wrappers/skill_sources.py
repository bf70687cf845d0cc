"""What the programs of skills import: wrappers of tools and of other skills, of whatever is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.generator import WrapperGenerator


class WrittenSources:
    def __init__(self) -> None:
        self._generator = WrapperGenerator(max_remembered=2000)
        self._writing = Lock()  # the generator remembers what it wrote, and threads may want files at the same time

    def skill_files(self, skills: Sequence[Tool], language: Language) -> Mapping[str, str]:
        with self._writing:
            files = self._generator.skill_files(skills)
        return {path: text for path, text in files.items() if path.endswith(language.suffix)}

    def tool_files(self, tools: Sequence[Tool], language: Language) -> Mapping[str, str]:
        with self._writing:
            return self._generator.generate(tools).files_in(language)
