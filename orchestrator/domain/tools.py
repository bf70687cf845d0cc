"""A tool of an upstream server, as its author described it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.domain.access import Paths, Role

JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SkillTraits:
    """What a skill, which is called as a tool is, has besides."""

    version: str
    language: str
    requires: Paths  # every tool that it calls, also through the skills that it uses
    drift: tuple[str, ...] = ()  # how those tools have changed: with any, it can be imported only to be told so
    is_output_observed: bool = False  # in its proof; it may return something else the next time


@dataclass(frozen=True, slots=True)
class Tool:
    server: str
    name: str
    description: str = ""
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    # Of its server: programs always get the list of contents, whether there are none, one or many.
    lists_contents: bool = False
    skill: SkillTraits | None = None

    @property
    def path(self) -> str:
        return f"{self.server}/{self.name}"

    def is_for(self, role: Role) -> bool:
        """Tell whether a role may call it."""
        return role.may_call(self.server, self.name, self.skill.requires if self.skill is not None else ())
