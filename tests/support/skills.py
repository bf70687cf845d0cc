"""Skills as tests want them: what matters is given, the rest is plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.domain.execution import Language
from orchestrator.domain.skills import BUILT_IN, Proof, SkillContent, SkillState, SkillVersion
from orchestrator.domain.tools import JsonSchema, Tool
from orchestrator.service.skill_reach import tool_digest

TAKES_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
RETURNS_COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
CODE = "def run(input):\n    return {'count': len(input['text'])}\n"


def tool(path: str = "postgres/query", **more: Any) -> Tool:
    server, _, name = path.partition("/")
    return Tool(server, name, **{"input_schema": TAKES_TEXT, **more})


def content(
    name: str = "count_orders",
    *,
    code: str = CODE,
    tools: Sequence[str] = ("postgres/query",),
    language: Language = Language.PYTHON,
    input: JsonSchema = TAKES_TEXT,
    output: JsonSchema = RETURNS_COUNT,
) -> SkillContent:
    return SkillContent(
        name=name,
        description=f"Does what {name} says.",
        language=language,
        code=code,
        input=input,
        output=output,
        tools=tuple(sorted(tools)),
        examples=({"text": "abc"},),
    )


def skill(
    name: str = "count_orders",
    author: str = "author-key",
    state: SkillState = SkillState.PROVEN,
    *,
    at: float = 1000.0,
    code: str = CODE,
    tools: Sequence[str] = ("postgres/query",),
    proof: Proof | None = None,
    drift: Sequence[str] = (),
    **of_content: Any,
) -> SkillVersion:
    is_approved = state is SkillState.APPROVED
    return SkillVersion(
        content=content(name, code=code, tools=tools, **of_content),
        author=author,
        author_role="developer",
        state=state,
        created_at=at,
        proof=proof,
        drift=tuple(drift),
        approved_by="approver-key" if is_approved else None,
        approved_at=at if is_approved else None,
    )


def built_in(name: str = "table_profile", **more: Any) -> SkillVersion:
    """Return one whose tools are those that it was proven with, unless its proof is given."""
    digests = {path: tool_digest(tool(path)) for path in more.get("tools", ("postgres/query",))}
    return skill(name, BUILT_IN, SkillState.APPROVED, at=0.0, **{"proof": Proof(1.0, digests), **more})
