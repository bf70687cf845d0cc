"""What the tools take and give: names, types and descriptions, in one place."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from orchestrator.catalog.disclosure import Detail
from orchestrator.domain.execution import LONGEST_SECONDS, Check, Language, Outcome, State, Stream
from orchestrator.domain.skills import MAX_EXAMPLES, SkillState
from orchestrator.faces.bodies import LeftOutBody, LimitsBody, MistakeBody, ToolCallBody, WorkspaceEndBody
from orchestrator.faces.file_inputs import KeptFile
from orchestrator.faces.intake import MAX_VALUES, has_too_many_values
from orchestrator.service.complaints import MUST_BE

# What a model may ask a reply to cost. More than that, Claude Code for one does not show but puts into a file.
FEWEST_TOKENS = 500
MOST_TOKENS = 25_000
# Of JSON that is written as text.
LARGEST_INPUT_CHARACTERS = 256 * 1024
IN_BOUNDS = f"with at most {LARGEST_INPUT_CHARACTERS} characters and {MAX_VALUES} values"
# More than any output has, and a number that every client can write.
LARGEST_OFFSET = 2**31 - 1
# The longest that a client may wait for a program, whatever the settings say.
MOST_SECONDS = 300


class Arguments(BaseModel):
    # Names are camelCase, as in the HTTP API; a model that writes snake_case is understood too.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Reply(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


def _separate(query: Any) -> Any:
    return [part for part in re.split(r"[;\n]", query) if part.strip()] or [""] if isinstance(query, str) else query


def _by_name(files: Any) -> Any:
    """Understand the form of the HTTP API, too: an object with the names."""
    if not isinstance(files, dict) or not all(isinstance(given, dict) for given in files.values()):
        return files
    return [{**given, "name": name} for name, given in files.items()]


def _from_json(value: Any) -> Any:
    """Read JSON that was written as text, with the limits of a body; its strings were not looked into there."""
    if not isinstance(value, str):
        return value
    if len(value) > LARGEST_INPUT_CHARACTERS or has_too_many_values(value.encode(errors="replace")):
        raise ValueError("too large")
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None


def _inputs(value: Any) -> Any:
    """Understand one input for a list of them, and the form of the HTTP API, too."""
    found = _from_json(value)
    inputs = [found] if isinstance(found, dict) else found
    if not isinstance(inputs, list) or len(inputs) > MAX_EXAMPLES or not all(isinstance(each, dict) for each in inputs):
        raise ValueError("not a list of inputs")
    return [each["input"] if isinstance(each, dict) and each.keys() == {"input"} else each for each in inputs]


def _flag(value: Any) -> Any:
    """Understand true and false in quotes, as some models write them."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _kept_file(kept: Any, info: ValidationInfo) -> Any:
    """Take the name of the new file for that of the kept one, unless it has another."""
    if not isinstance(kept, dict) or "name" not in info.data:
        return kept
    return {"name": info.data["name"], **{name: value for name, value in kept.items() if value is not None}}


Flag = Annotated[bool, Strict(), BeforeValidator(_flag)]
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


# Text, because not every client can declare an object with names of one's own choice; an object is taken all the same.
JsonInput = Annotated[
    dict[str, Any],
    BeforeValidator(_from_json),
    WithJsonSchema({"type": "string", MUST_BE: f'a JSON object such as {{"table": "orders"}}, {IN_BOUNDS}'}),
]
JsonInputs = Annotated[
    list[dict[str, Any]],
    BeforeValidator(_inputs),
    WithJsonSchema(
        {
            "type": "string",
            MUST_BE: f'a JSON list of 1 to {MAX_EXAMPLES} objects such as [{{"table": "orders"}}], {IN_BOUNDS}',
        }
    ),
]


class GivenFile(BaseModel):
    """A file for the program: text, or one that is kept."""

    model_config = ConfigDict(extra="forbid")

    name: str
    text: str | None = None
    kept: Annotated[KeptFile | None, BeforeValidator(_kept_file), Field(alias="from")] = None


FROM = ("execution", "workspace", "version", "name")
# A list, because Gemini's function declarations know no object with names of one's own choice.
GivenFiles = Annotated[
    list[GivenFile],
    BeforeValidator(_by_name),
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "text": {"type": "string"},
                    "from": {
                        "type": "object",
                        "properties": {each: {"type": "string"} for each in FROM},
                    },
                },
                "required": ["name"],
            },
        }
    ),
]


class ExecuteCode(Arguments):
    code: Annotated[str, Field(min_length=1, description="The program. Print what you want to see.")]
    language: Language = Language.TYPESCRIPT
    timeout_seconds: Annotated[float | None, Field(ge=0.1, le=LONGEST_SECONDS)] = None
    max_tokens: Annotated[MaxTokens, Field(description="Longest reply.")] = None
    check: Annotated[Check, Field(description="Rejects what surely fails.")] = Check.STRICT
    background: Annotated[Flag, Field(description="Return at once.")] = False
    files: GivenFiles | None = None
    workspace: str | None = None


class SearchTools(Arguments):
    query: Queries
    server: ServerName = None
    detail: Detail = Detail.DESCRIPTION
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class GetToolInfo(Arguments):
    server: Annotated[str, Field(min_length=1, max_length=256)]
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    language: Annotated[Language | None, Field(description="Default: both.")] = None
    include_schema: Annotated[Flag, Field(description="Also show the JSON schemas, which are long.")] = False


class ListServers(Arguments):
    pass


class ListTools(Arguments):
    server: ServerName = None
    detail: Detail = Detail.NAME


class GetExecution(Arguments):
    execution_id: Annotated[str | None, Field(max_length=64, description="Default: your newest.")] = None
    stream: Stream = Stream.STDOUT
    file: Annotated[str | None, Field(description="Read this instead.")] = None
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET, description="First byte to show.")] = 0
    search: Annotated[
        str | None,
        Field(min_length=1, max_length=1000, description="Show the lines with this text instead; case is ignored."),
    ] = None
    wait_seconds: Annotated[float, Field(ge=0, le=30, description="Wait for more output, or the end.")] = 0
    max_tokens: MaxTokens = None


class ListWorkspaces(Arguments):
    name: str | None = None


class SaveSkill(Arguments):
    name: Annotated[str, Field(max_length=60)]
    description: Annotated[str, Field(description="One line.")]
    code: str | None = None
    from_execution: Annotated[str | None, Field(max_length=64, description="An id, or `last`.")] = None
    language: Language | None = None
    tools: Annotated[list[str] | None, Field(description="Default: what it imports or called.")] = None
    examples: Annotated[JsonInputs | None, Field(description="JSON list of inputs that work.")] = None


class RunSkill(Arguments):
    name: Annotated[str, Field(max_length=64)]
    input: Annotated[JsonInput, Field(default_factory=dict, description="JSON object.")]
    timeout_seconds: Annotated[float | None, Field(ge=0.1, le=MOST_SECONDS)] = None
    max_tokens: MaxTokens = None


class CancelExecution(Arguments):
    execution_id: ExecutionId
    max_tokens: MaxTokens = None


class FileEntry(Reply):
    name: str
    bytes: int
    media_type: str


class ExecutionReport(Reply):
    outcome: Outcome | None = Field(description="null while it runs in the background.")
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
    files: list[FileEntry] = Field(description="The first files that it left in /workspace/out.")
    file_count: int
    files_left_out: list[LeftOutBody]
    files_left_out_count: int
    workspace: WorkspaceEndBody | None = None
    limits: LimitsBody | None = Field(description="null for one that was refused.")


class SavedSkillReply(Reply):
    name: str
    version: str
    state: SkillState
    remarks: list[str]
    tools: list[str]


class SearchMatch(Reply):
    line: int
    offset: int
    text: str


class ExecutionPage(Reply):
    execution_id: str
    state: State
    outcome: Outcome | None = None
    exit_code: int | None = None
    stream: Stream | None = None
    file: str | None = None
    media_type: str | None = Field(None, description="Of a file that is no text.")
    total_bytes: int
    offset: int | None = None
    text: str | None = None
    next_offset: int | None = Field(None, description="Pass as offset to read on; null at the end.")
    stderr_bytes: int | None = Field(None, description="Of a program that did not complete.")
    matches: list[SearchMatch] | None = None
    match_count: int | None = None


class WorkspaceEntry(Reply):
    name: str
    version: str = Field(description="The execution that left it so.")
    made_at: str
    files: int
    bytes: int


class WorkspaceListing(Reply):
    workspaces: list[WorkspaceEntry]
    files: list[FileEntry] | None = Field(None, description="The first files of the one that was asked for.")


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
