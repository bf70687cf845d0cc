"""What a language's backend says of a tool, in one step."""

from __future__ import annotations

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import BACKENDS, Contract, Shape


def signature(tool: Tool, language: Language, observed: Shape | None = None) -> str:
    return BACKENDS[language].signature(Contract.of(tool, observed))


def example_call(tool: Tool, language: Language) -> str:
    return BACKENDS[language].example_call(Contract.of(tool, None))
