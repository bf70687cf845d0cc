"""The files through which programs use skills, and the program that runs one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from orchestrator.domain.access import SKILLS, Role
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool


class SkillSources(Protocol):
    """Writes what programs import skills and tools from."""

    def skill_files(self, skills: Sequence[Tool], language: Language) -> Mapping[str, str]: ...

    def tool_files(self, tools: Sequence[Tool], language: Language) -> Mapping[str, str]: ...


class ImportableTools(Protocol):
    version: int

    def importable(self, role: Role) -> Sequence[Tool]: ...


class SkillCode:
    """The code of approved skills, as files of the sandboxes of the roles that may use them."""

    def __init__(self, latest: Callable[[], ImportableTools], code: Callable[[str, str], str | None]) -> None:
        self._latest = latest
        self._code = code

    @property
    def version(self) -> object:
        return self._latest().version

    def files(self, role: Role, language: Language) -> dict[str, str]:
        skills = [tool for tool in self._latest().importable(role) if tool.skill is not None]
        return code_files(skills, language, self._code)


def files_around(
    sources: SkillSources, tools: Sequence[Tool], codes: Mapping[str, str], language: Language
) -> dict[str, str]:
    """Return what a skill may import: these tools and skills, and the code of skills by their version."""
    skills = [tool for tool in tools if tool.skill is not None]
    return {
        **sources.tool_files([tool for tool in tools if tool.skill is None], language),
        **sources.skill_files(skills, language),
        **code_files(skills, language, lambda name, version: codes.get(version)),
    }


def code_files(skills: Sequence[Tool], language: Language, code: Callable[[str, str], str | None]) -> dict[str, str]:
    """Return the code that programs in one language run themselves."""
    files = {}
    for tool in skills:
        traits = tool.skill
        if traits is not None and traits.language == language and not traits.drift:
            files[code_path(tool.name, language)] = code(tool.name, traits.version) or ""
    return files


def code_path(name: str, language: Language) -> str:
    return f"{SKILLS}/_code/{name}{language.suffix}"


def is_index(path: str) -> bool:
    """Tell whether a generated file lists all skills, and so is not of one of them."""
    return path.startswith((f"{SKILLS}/__", f"{SKILLS}/index"))


def driver(language: Language, name: str, given: Mapping[str, Any]) -> str:
    """Write the program that runs a skill."""
    text = json.dumps(json.dumps(dict(given), ensure_ascii=True), ensure_ascii=True)  # a literal in both languages
    match language:
        case Language.PYTHON:
            return f"from servers._skills import answer\n\nanswer({name!r}, {text})\n"
        case Language.TYPESCRIPT:
            return f"import {{ answer }} from '/workspace/servers/_skills.js';\n\nawait answer('{name}', {text});\n"
