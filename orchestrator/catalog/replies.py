"""What callers are told about tools. A field that was not given is not sent, for every token counts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model
from pydantic.alias_generators import to_camel

from orchestrator.domain.execution import Language

# As its author wrote it: also a text that has no bytes, or a mapping that cannot be changed.
Text = SkipValidation[str]
Json = SkipValidation[Mapping[str, Any]]


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)

    def given(self) -> dict[str, Any]:
        """Return the fields that are sent, under the names that they have in JSON."""
        fields = type(self).model_fields.items()
        return {field.alias or name: getattr(self, name) for name, field in fields if name in self.model_fields_set}


class Metrics(Reply):
    """What a reply costs beside the full definitions of every tool that the caller may use."""

    tokens: int = 0
    full_tokens: int = 0
    saved_percent: float = 0.0

    @classmethod
    def of(cls, tokens: int, full_tokens: int) -> Metrics:
        saved = round(100 * (1 - tokens / full_tokens), 1) if tokens < full_tokens else 0.0
        return cls(tokens=tokens, full_tokens=full_tokens, saved_percent=saved)


class ToolEntry(Reply):
    """One tool, told as fully as was asked for."""

    server: Text = Field("", description="Left out where tools are grouped by server.")
    name: Text
    kind: str = Field("tool", description="`skill` for a skill; left out for a tool of a server.")
    description: Text = ""
    input_schema: Json = Field(default_factory=dict)
    title: Text = ""
    output_schema: Json = Field(default_factory=dict)
    annotations: Json = Field(default_factory=dict)
    score: float = Field(0.0, description="How well it fits a search, where that was asked for.")


# Names in one string or, if one has a space, in a list; names with a sentence each; definitions.
ToolGroup = str | list[str] | dict[str, str] | list[ToolEntry]


class ToolListing(Reply):
    tools: SkipValidation[dict[str, ToolGroup]] = Field(
        description="By server: names, names with a sentence each, or definitions."
    )
    problems: SkipValidation[dict[str, str]] = Field(
        default_factory=dict, description="Why a server's tools are missing."
    )
    metrics: Metrics = Field(default_factory=Metrics)


class FoundTools(Reply):
    tools: list[ToolEntry] = Field(description="Best first.")
    metrics: Metrics = Field(default_factory=Metrics)


class Usage(Reply):
    """How to call a tool in one language."""

    import_line: Text = Field(alias="import")
    signature: Text
    example: Text


class ResultShape(StrEnum):
    """Where the type of the result is known from."""

    DECLARED = "declared"
    OBSERVED = "observed"
    UNKNOWN = "unknown"


# Each language has a field of its own name, so that a new one needs no change here.
_USAGES: dict[str, Any] = {language.value: (Usage, ...) for language in Language}

ToolInfo = create_model(
    "ToolInfo",
    __base__=ToolEntry,
    __doc__="One tool with its schemas, and how to call it in each language.",
    **_USAGES,
    result_shape=(ResultShape, ...),
    metrics=(Metrics, Field(default_factory=Metrics)),
)


class LevelTokens(Reply):
    """What a list of tools costs, by how much it tells of each."""

    name: int
    description: int
    full: int


class ServerCosts(Reply):
    server: Text
    state: str
    tools: int
    problem: Text | None
    tokens: LevelTokens


class ToolCosts(Reply):
    """What the tools cost a client that loads them, by server."""

    servers: list[ServerCosts]
    total: LevelTokens
    here: int = Field(description="What the executor's own MCP tools cost a client instead.")


class ServerEntry(Reply):
    server: Text
    state: str
    tools: int
    problem: Text | None
