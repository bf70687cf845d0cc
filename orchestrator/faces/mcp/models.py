"""What the tools take and give: names, types and descriptions, in one place."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from orchestrator.catalog.disclosure import Detail
from orchestrator.domain.execution import Check, Language, Outcome, State, Stream
from orchestrator.faces.bodies import LimitsBody, MistakeBody, ToolCallBody

# What a model may ask a reply to cost. More than that, Claude Code for one does not show but puts into a file.
FEWEST_TOKENS = 500
MOST_TOKENS = 25_000
# More than any output has, and a number that every client can write.
LARGEST_OFFSET = 2**31 - 1


class Arguments(BaseModel):
    # Names are camelCase, as in the HTTP API; a model that writes snake_case is understood too.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Reply(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


def _separate(query: Any) -> Any:
    return [part for part in re.split(r"[;\n]", query) if part.strip()] or [""] if isinstance(query, str) else query


ServerName = Annotated[str | None, Field(max_length=256, description="Only the tools of this server.")]
ExecutionId = Annotated[str, Field(min_length=1, max_length=64)]
MaxTokens = Annotated[int | None, Field(ge=FEWEST_TOKENS, le=MOST_TOKENS)]
# One plain type, because not every client understands a choice of two; a list is taken all the same.
Queries = Annotated[
    list[str],
    BeforeValidator(_separate),
    WithJsonSchema({"type": "string"}),
    Field(description="What you want to do, in words or by name. Separate several queries with ';'."),
]


class ExecuteCode(Arguments):
    code: Annotated[str, Field(min_length=1, description="The program. Print what you want to see.")]
    language: Language = Language.TYPESCRIPT
    timeout_seconds: Annotated[float | None, Field(ge=0.1, le=300)] = None
    max_tokens: Annotated[MaxTokens, Field(description="Longest reply.")] = None
    check: Annotated[Check, Field(description="Rejects what surely fails.")] = Check.STRICT


class SearchTools(Arguments):
    query: Queries
    server: ServerName = None
    detail: Detail = Detail.DESCRIPTION
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class GetToolInfo(Arguments):
    server: Annotated[str, Field(min_length=1, max_length=256)]
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    language: Annotated[Language | None, Field(description="Default: both.")] = None
    include_schema: Annotated[bool, Field(description="Also show the JSON schemas, which are long.")] = False


class ListServers(Arguments):
    pass


class ListTools(Arguments):
    server: ServerName = None
    detail: Detail = Detail.NAME


class GetExecution(Arguments):
    execution_id: Annotated[str | None, Field(max_length=64, description="Default: your newest.")] = None
    stream: Stream = Stream.STDOUT
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET, description="First byte to show.")] = 0
    search: Annotated[
        str | None,
        Field(min_length=1, max_length=1000, description="Show the lines with this text instead; case is ignored."),
    ] = None
    max_tokens: MaxTokens = None


class CancelExecution(Arguments):
    execution_id: ExecutionId
    max_tokens: MaxTokens = None


class ExecutionReport(Reply):
    outcome: Outcome
    truncated: bool = Field(description="Whether the program printed more than `output` or `stderr` shows.")
    notice: str | None = Field(None, description="What went wrong or was left out, and what to do next.")
    execution_id: str
    exit_code: int | None = None
    output: str = Field(description="stdout: all of it, or its beginning and end.")
    stderr: str
    output_bytes: int
    stderr_bytes: int
    seconds: float
    tool_calls: list[ToolCallBody]
    tool_call_count: int
    mistakes: list[MistakeBody] = Field(description="What the check found in the program.")
    images: int = Field(description="How many pictures follow as image content.")
    limits: LimitsBody


class SearchMatch(Reply):
    line: int
    offset: int
    text: str


class ExecutionPage(Reply):
    execution_id: str
    state: State
    outcome: Outcome | None = None
    stream: Stream
    total_bytes: int
    offset: int | None = None
    text: str | None = None
    next_offset: int | None = Field(None, description="Pass as offset to read on; null at the end.")
    matches: list[SearchMatch] | None = None
    match_count: int | None = None


class TokenMetrics(Reply):
    tokens: int
    full_tokens: int
    saved_percent: float


class FoundTools(Reply):
    tools: list[dict[str, Any]]
    metrics: TokenMetrics


class ToolListing(Reply):
    tools: dict[str, Any] = Field(description="By server: names, name and sentence, or definitions.")
    metrics: TokenMetrics


class LanguageView(Reply):
    import_line: Annotated[str, Field(alias="import")]
    signature: str
    example: str


class ToolDetails(Reply):
    server: str
    name: str
    description: str
    typescript: LanguageView | None = None
    python: LanguageView | None = None
    result_shape: Literal["declared", "observed", "unknown"]
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class ServerEntry(Reply):
    server: str
    state: str
    tools: int
    problem: str | None = None


class ServerListing(Reply):
    servers: list[ServerEntry]
