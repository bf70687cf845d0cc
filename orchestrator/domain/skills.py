"""A skill: a stored, typed, proven function. A version of it is named by its content's hash and never changes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from orchestrator.domain.access import SKILLS
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language
from orchestrator.domain.names import tool_identifier
from orchestrator.domain.tools import JsonSchema

VersionKey = tuple[str, str]  # version and author: many may save the same
BUILT_IN = "(built-in)"  # the author of the built-in skills; no key can have this name

SKILL_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
MAX_NAME_CHARACTERS = 60
MAX_DESCRIPTION_CHARACTERS = 300
MAX_CODE_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 32 * 1024
MAX_TOOLS = 50
MAX_EXAMPLES = 5
MAX_EXAMPLE_BYTES = 16 * 1024
MAX_USAGE_CHARACTERS = 500
MAX_DEPTH = 3  # of skills that use skills
MAX_LEVELS = 100  # of schemas, examples and results: what is nested more deeply, not every reader can read
KEPT_RETIRED = 20  # of each author's versions that were retired, those that somebody may still want to read

OBSERVED = "x-observed"  # in a schema that nobody gave, and that tells only what the proof saw

_ENTRY_POINT = "run"  # what the function of every Python skill is called


class SkillState(StrEnum):
    DRAFT = "draft"  # its proof failed; for its author only
    PROVEN = "proven"  # for its author, until somebody else approves it
    APPROVED = "approved"  # for every role that may call what it calls
    STALE = "stale"  # a tool changed under it
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class SkillContent:
    """Everything that a version's name vouches for."""

    name: str
    description: str
    language: Language
    code: str
    input: JsonSchema
    output: JsonSchema
    tools: tuple[str, ...]  # SERVER/TOOL, sorted; other skills as skills/NAME
    examples: tuple[Mapping[str, Any], ...]  # inputs

    @property
    def version(self) -> str:
        return sha256(self.canonical).hexdigest()

    @property
    def canonical(self) -> bytes:
        return canonical_json(self.as_document())

    def as_document(self) -> dict[str, Any]:
        """Return it as it travels between installations."""
        return {
            "name": self.name,
            "description": self.description,
            "language": self.language.value,
            "code": self.code,
            "input": self.input,
            "output": self.output,
            "tools": list(self.tools),
            "examples": [{"input": dict(example)} for example in self.examples],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SkillContent:
        return cls(
            name=document["name"],
            description=document["description"],
            language=Language(document["language"]),
            code=document["code"],
            input=document["input"],
            output=document["output"],
            tools=tuple(document["tools"]),
            examples=tuple(example["input"] for example in document["examples"]),
        )

    @property
    def uses(self) -> tuple[str, ...]:
        """Name the skills that it uses."""
        return tuple(path.partition("/")[2] for path in self.tools if path.startswith(f"{SKILLS}/"))


@dataclass(frozen=True, slots=True)
class Remark:
    """What was noticed about a skill when it was saved or proven, and where."""

    kind: str
    message: str
    place: str = ""  # such as `code:12:5`, `description` or `examples[0].input.query`
    refuses: bool = False  # whether the skill cannot be saved with it


@dataclass(frozen=True, slots=True)
class Proof:
    """What a proof established: the tools as they were, by a digest of their names and schemas."""

    proven_at: float
    digests: Mapping[str, str]
    executions: tuple[str, ...] = ()  # the live runs
    calls: int = 0


@dataclass(frozen=True, slots=True)
class SkillUse:
    """How often a version was used since it was last written down."""

    name: str
    version: str | None  # None for a built-in one
    author: str
    uses: int
    failures: int
    last_used_at: float | None


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One version with everything that is known of it but the recording of its proof, which may be large."""

    content: SkillContent
    author: str  # the name of a key
    author_role: str
    state: SkillState  # as it was stored: a tool that changed makes it stale, whatever it was
    created_at: float
    inferred: tuple[str, ...] = ()  # which of input, output, tools and examples nobody gave
    remarks: tuple[Remark, ...] = ()
    proof: Proof | None = None
    drift: tuple[str, ...] = ()  # how the tools differ from those of the proof; with any, the skill is stale
    approved_by: str | None = None
    approved_at: float | None = None
    uses: int = 0
    failures: int = 0
    last_used_at: float | None = None
    version: str = field(default="")

    def __post_init__(self) -> None:
        if not self.version:
            object.__setattr__(self, "version", self.content.version)

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def key(self) -> VersionKey:
        return self.version, self.author

    @property
    def effective_state(self) -> SkillState:
        if self.drift and self.state in (SkillState.PROVEN, SkillState.APPROVED):
            return SkillState.STALE
        return self.state


def usage(content: SkillContent) -> str:
    """Say in short what a skill is called with."""
    properties, required = content.input.get("properties"), content.input.get("required")
    told = [
        f"{name}{'' if isinstance(required, list) and name in required else '?'}: {_kind(schema)}"
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    return f"{content.name}({{{', '.join(told)}}})"[:MAX_USAGE_CHARACTERS]


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) else "any"


def canonical_json(value: Any) -> bytes:
    """Write JSON in the one way that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def is_too_deep(value: Any) -> bool:
    """Tell whether JSON is nested more deeply than MAX_LEVELS, looking at one level after the other."""
    level = [value]
    for _ in range(MAX_LEVELS):
        containers = [each for each in level if isinstance(each, Mapping | list | tuple)]
        level = [inner for each in containers for inner in (each.values() if isinstance(each, Mapping) else each)]
        if not level:
            return False
    return any(isinstance(each, Mapping | list | tuple) for each in level)


def require_skill_name(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS or not SKILL_NAME.fullmatch(name):
        raise InvalidRequest(
            f"`name` must have 1 to {MAX_NAME_CHARACTERS} characters: lower-case words of letters and digits, joined "
            "by single underscores, such as weekly_report."
        )
    # Programs import a skill by its name, so the code that is generated for it must not need to spell it otherwise.
    if name == _ENTRY_POINT or tool_identifier(name) != name:
        raise InvalidRequest(f"`name` must not be {name}, which means something in TypeScript or Python.")
    return name
