"""How programs call a skill, as its folder tells it."""

from __future__ import annotations

from orchestrator.domain.access import SKILLS
from orchestrator.domain.execution import Language
from orchestrator.domain.skill_folders import Usage
from orchestrator.domain.skills import SkillVersion
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.wrappers import BACKENDS, Contract


def usages_of(skill: SkillVersion) -> dict[Language, Usage]:
    content = skill.content
    traits = SkillTraits(skill.version, content.language, ())
    tool = Tool(SKILLS, skill.name, content.description, content.input, content.output or None, skill=traits)
    contract = Contract.of(tool, None)
    return {
        language: Usage(backend.signature(contract), backend.example_call(contract))
        for language, backend in BACKENDS.items()
    }
