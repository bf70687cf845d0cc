"""What programs import, told by one file each, for the unit tests of skills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool


class FakeSources:
    def tool_files(self, tools: Sequence[Tool], language: Language) -> Mapping[str, str]:
        return {f"tools{language.suffix}": " ".join(sorted(tool.path for tool in tools))}

    def skill_files(self, skills: Sequence[Tool], language: Language) -> Mapping[str, str]:
        return {f"skills{language.suffix}": " ".join(sorted(tool.path for tool in skills))}
