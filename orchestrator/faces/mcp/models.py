"""What the tools take and give: names, types and descriptions, in one place."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.catalog.disclosure import Detail
from orchestrator.domain.execution import Language, Outcome, State, Stream
from orchestrator.faces.bodies import LimitsBody, ToolCallBody
from orchestrator.service.records import LARGEST_NUMBER


class Arguments(BaseModel):
    # Names are camelCase, as in the HTTP API; a model that writes snake_case is understood too.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Reply(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


ServerName = Annotated[str | None, Field(max_length=256, description="Only the tools of this server.")]
ExecutionId = Annotated[str, Field(min_length=1, max_length=64, description="The id that execute_code returned.")]


class ExecuteCode(Arguments):
    code: Annotated[str, Field(min_length=1, description="The program. Print what you want to see.")]
    language: Annotated[Language, Field(description="Language of the program.")] = Language.TYPESCRIPT
    timeout_seconds: Annotated[float | None, Field(gt=0, le=300, description="How long the program may run.")] = None


class SearchTools(Arguments):
    query: Annotated[
        str | list[str], Field(description="What you want to do, in words or by name; up to 10 queries at once.")
    ]
    server: ServerName = None
    detail: Annotated[Detail, Field(description="How much to tell about each tool.")] = Detail.DESCRIPTION
    limit: Annotated[int, Field(ge=1, le=50, description="The most tools to return.")] = 10


class GetToolInfo(Arguments):
    server: Annotated[str, Field(min_length=1, max_length=256)]
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    language: Annotated[Language | None, Field(description="Only this language's import and signature.")] = None
    include_schema: Annotated[bool, Field(description="Also return the tool's JSON schemas, which are long.")] = False


class ListServers(Arguments):
    pass


class ListTools(Arguments):
    server: ServerName = None
    detail: Annotated[Detail, Field(description="How much to tell about each tool.")] = Detail.NAME


class GetExecution(Arguments):
    execution_id: Annotated[
        str | None, Field(max_length=64, description="The id that execute_code returned; default: your newest.")
    ] = None
    stream: Annotated[Stream, Field(description="Which output to read.")] = Stream.STDOUT
    offset: Annotated[
        int, Field(ge=0, le=LARGEST_NUMBER, description="First byte of the page; nextOffset leads to the next.")
    ] = 0
    search: Annotated[
        str | None,
        Field(min_length=1, max_length=1000, description="Return the lines with this text instead; case is ignored."),
    ] = None


class CancelExecution(Arguments):
    execution_id: ExecutionId


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
