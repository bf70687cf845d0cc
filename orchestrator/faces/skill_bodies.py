"""What callers are told about skills over HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from orchestrator.domain.access import Caller
from orchestrator.domain.execution import Language
from orchestrator.domain.line_diff import TooDifferent, hunks
from orchestrator.domain.skills import SkillState, SkillVersion
from orchestrator.faces.bodies import Body
from orchestrator.service.skill_shelf import SkillShelf


class RemarkBody(Body):
    kind: str
    message: str
    place: str


class SkillBody(Body):
    """One version of a skill."""

    name: str
    version: str = Field(description="The SHA-256 of its content.")
    state: SkillState
    description: str
    language: Language
    tools: list[str] = Field(description="What it calls, as SERVER/TOOL; other skills as skills/NAME.")
    author: str = Field(description="The name of the key that saved it.")
    created_at: str
    approved_by: str | None
    approved_at: str | None
    uses: int
    failures: int
    last_used_at: str | None
    drift: list[str] = Field(description="How its tools have changed since its proof; if they have, it is stale.")


class SkillList(Body):
    skills: list[SkillBody]
    suggestions: list[str] = Field(description="What could be retired, and why. Nothing is retired automatically.")


class TouchedBody(Body):
    tool: str
    read_only: bool | None = Field(description="What its server says; null if it does not say.")
    is_there: bool


class ProofBody(Body):
    proven_at: str
    calls: int
    executions: list[str] = Field(description="The live runs of its examples.")
    digests: dict[str, str] = Field(description="Of the name and the schemas of each tool.")


class SavedSkill(SkillBody):
    """A skill that was saved, and what its proof found."""

    remarks: list[RemarkBody]
    inferred: list[str] = Field(description="Which of input, output, tools and examples were inferred.")
    proof: ProofBody | None


class SkillDetail(SavedSkill):
    """A skill with its code, and what an approver needs to know."""

    code: str
    input: dict[str, Any]
    output: dict[str, Any]
    examples: list[dict[str, Any]]
    touches: list[TouchedBody] = Field(description="Every tool that it calls, also through the skills that it uses.")
    approved_version: str | None = Field(
        description="The version of this name that is approved now; null if it is stale."
    )
    version_in_use: str | None = Field(description="The version that your programs get by this name; null if none.")
    difference: str = Field(description="The difference from the approved version, as a unified diff; may be empty.")


def skill_body(skill: SkillVersion) -> SkillBody:
    return SkillBody(**_about(skill))


def saved_skill(skill: SkillVersion) -> SavedSkill:
    return SavedSkill(**_about(skill), **_found(skill))


def skill_detail(caller: Caller, skill: SkillVersion, shelf: SkillShelf) -> SkillDetail:
    """Tell all of a skill; comparing it takes up to a tenth of a second, so do it in a thread."""
    content = skill.content
    approved = shelf.approved(skill.name)
    if approved is not None and not shelf.shows(caller, approved):
        approved = None  # a draft of its name does not make it visible
    return SkillDetail(
        **_about(skill),
        **_found(skill),
        code=content.code,
        input=dict(content.input),
        output=dict(content.output),
        examples=[{"input": dict(example)} for example in content.examples],
        touches=[
            TouchedBody(tool=each.path, read_only=each.read_only, is_there=each.is_there)
            for each in shelf.reach.touched(skill)
        ],
        approved_version=approved.version if approved is not None and not approved.drift else None,
        version_in_use=shelf.version_in_use(caller, skill.name),
        difference=difference(approved, skill) if approved is not None else "",
    )


def difference(before: SkillVersion, after: SkillVersion) -> str:
    """Show what changed between two versions: the code, and everything else as JSON.

    What is too different to be compared line by line is shown as all old lines and all new ones.
    """
    if before.version == after.version:
        return ""
    old, new = _lines(before), _lines(after)
    names = f"{before.name}@{before.version[:12]}", f"@{after.version[:12]}"
    try:
        lines = list(hunks(old, new))
    except TooDifferent:
        lines = [f"@@ -1,{len(old)} +1,{len(new)} @@\n", *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return _shown("".join([f"--- {names[0]}\n", f"+++ {names[1]}\n", *lines]))


def _shown(difference: str) -> str:
    """Make carriage returns visible, after the comparison: it must not take one for the sign that stands for it."""
    return difference.replace("␍", "␍ (U+240D)").replace("\r", "␍")


def _lines(skill: SkillVersion) -> list[str]:
    """Return the content so that every byte that differs is in a line that differs."""
    document = skill.content.as_document()
    code = document.pop("code").split("\n")
    about = [f"{name}: {_as_json(document[name])}" for name in sorted(document)]
    return [f"{line}\n" for text in about for line in text.split("\n")] + [f"{line}\n" for line in code]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _about(skill: SkillVersion) -> dict[str, Any]:
    return {
        "name": skill.name,
        "version": skill.version,
        "state": skill.effective_state,
        "description": skill.content.description,
        "language": skill.content.language,
        "tools": list(skill.content.tools),
        "author": skill.author,
        "created_at": _moment(skill.created_at),
        "approved_by": skill.approved_by,
        "approved_at": _moment(skill.approved_at) if skill.approved_at is not None else None,
        "uses": skill.uses,
        "failures": skill.failures,
        "last_used_at": _moment(skill.last_used_at) if skill.last_used_at is not None else None,
        "drift": list(skill.drift),
    }


def _found(skill: SkillVersion) -> dict[str, Any]:
    proof = skill.proof
    return {
        "remarks": [
            RemarkBody(kind=remark.kind, message=remark.message, place=remark.place) for remark in skill.remarks
        ],
        "inferred": list(skill.inferred),
        "proof": ProofBody(
            proven_at=_moment(proof.proven_at),
            calls=proof.calls,
            executions=list(proof.executions),
            digests=dict(proof.digests),
        )
        if proof is not None
        else None,
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
