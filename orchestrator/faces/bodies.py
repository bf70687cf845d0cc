"""An execution as the faces show it: one place for names, types and documentation. Each face selects and adds."""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.execution import (
    CancelledBy,
    ExecutionRecord,
    ExecutionResult,
    Image,
    Kind,
    Language,
    Limits,
    Mistake,
    Outcome,
    Page,
    State,
)
from orchestrator.domain.files import File, LeftOut, Version, Why, WorkspaceEnd
from orchestrator.domain.ledger import CallOutcome, ToolCall


class Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


B = TypeVar("B", bound=Body)


def shown_as(kind: type[B], value: object) -> B:
    """Show a value whose fields have the same names, and were checked where they come from."""
    # The plugin of mypy takes what this returns for the base class.
    return cast("B", kind.model_construct(**{name: getattr(value, name) for name in kind.model_fields}))


class LimitsBody(Body):
    """The limits that held for an execution."""

    timeout_seconds: float
    max_output_bytes: int = Field(description="What is kept of a stream.")
    flood_bytes: int = Field(description="What a program may print to a stream before it is ended.")
    memory_bytes: int
    cpus: float
    max_processes: int
    workspace_bytes: int
    scratch_bytes: int

    @classmethod
    @lru_cache(maxsize=64)  # most executions have the same ones
    def of(cls, limits: Limits) -> LimitsBody:
        return cls.model_validate(asdict(limits))


class MetricsBody(Body):
    """What an execution took."""

    stderr_bytes: int
    dropped_bytes: int = Field(description="What was printed beyond the limit, and not kept.")
    queue_ms: float = Field(description="Time spent waiting for a turn.")
    start_ms: float = Field(description="Time to get a sandbox.")
    run_ms: float = Field(description="Time that the program ran.")
    cpu_ms: float = Field(description="CPU time of the program and its children.")
    max_memory_bytes: int = Field(description="Largest resident memory of one process of the program.")
    output_tokens: int | None = Field(
        None, description="Tokens of `output`, counted with o200k; only in the reply to the execution itself."
    )


class FaultBody(Body):
    """What failed on our side, or why the request was refused."""

    code: str
    detail: str


class ToolCallBody(Body):
    """One tool call and what became of it; never its arguments or its result."""

    server: str
    tool: str
    outcome: CallOutcome
    started_ms: float = Field(description="Milliseconds from the program's start.")
    duration_ms: float
    request_bytes: int
    result_bytes: int
    detail: str | None = None

    @classmethod
    def of(cls, call: ToolCall) -> ToolCallBody:
        return shown_as(cls, call)


class MistakeBody(Body):
    """What the check found in the program, and how to mend it."""

    line: int
    column: int
    message: str

    @classmethod
    def of(cls, mistake: Mistake) -> MistakeBody:
        return cls.model_construct(**asdict(mistake))


class ImageBody(Body):
    """A picture that a program showed, or that a tool returned to it."""

    mime_type: str
    bytes: int = Field(description="Size of the picture itself.")
    data: str = Field(description="The picture in base64.")

    @classmethod
    def of(cls, image: Image) -> ImageBody:
        data = b64encode(image.data).decode()
        return cls.model_construct(mime_type=image.mime_type, bytes=len(image.data), data=data)


class FileBody(Body):
    """A file that can be read; its bytes are at `url`."""

    name: str
    bytes: int
    media_type: str = Field(description="By the ending of its name, which a program chose.")
    sha256: str
    url: str = Field(description="Path of its content.")

    @classmethod
    def of(cls, file: File, below: str) -> FileBody:
        """Describe a file whose content is at its name below a path."""
        return cls.model_construct(
            name=file.name,
            bytes=file.bytes,
            media_type=file.media_type,
            sha256=file.sha256,
            url=f"{below}/{quote(file.name)}",
        )


class LeftOutBody(Body):
    """A file that was not kept."""

    name: str
    bytes: int
    why: Why

    @classmethod
    def of(cls, left_out: LeftOut) -> LeftOutBody:
        return cls.model_construct(name=left_out.name, bytes=left_out.bytes, why=left_out.why)


class WorkspaceEndBody(Body):
    """What an execution did to its workspace."""

    name: str
    kept: bool = Field(description="Whether the workspace has what this execution left in it.")
    version: str | None = Field(description="The execution whose files the workspace has now.")
    files: int
    bytes: int
    why_not: str | None = Field(description="Why the files were not kept.")
    left_out: list[LeftOutBody] = Field(description="What is not in it; the first ones by name.")
    left_out_count: int = Field(description="How many files are not in it.")

    @classmethod
    def of(cls, end: WorkspaceEnd) -> WorkspaceEndBody:
        fields = {name: getattr(end, name) for name in cls.model_fields}
        return cls.model_construct(**fields | {"left_out": [LeftOutBody.of(each) for each in end.left_out]})


class VersionBody(Body):
    """What a workspace held after an execution."""

    version: str = Field(description="The execution that left it.")
    caller: str
    made_at: str = Field(description="When it was left, or last restored; ISO 8601, UTC.")
    digest: str = Field(description="SHA-256 of the names and contents: equal versions have equal ones.")
    file_count: int
    bytes: int

    @classmethod
    def of(cls, version: Version) -> VersionBody:
        return cls.model_construct(
            version=version.execution_id,
            caller=version.caller,
            made_at=iso(version.made_at),
            digest=version.digest,
            file_count=len(version.files),
            bytes=version.bytes,
        )


class Ended(Body):
    """How an execution ended; these fields come first wherever one is shown."""

    execution_id: str
    outcome: Outcome | None = Field(description="null while it has not ended, and when it was refused.")
    exit_code: int | None = Field(description="Exit status; 128 + n when signal n ended the program.")


class Printed(Ended):
    """What a program printed."""

    output: str = Field(description="stdout, up to the limit; invalid UTF-8 is replaced.")
    stderr: str


class ExecutionSummary(Ended):
    """What a list tells of an execution."""

    state: State
    caller: str
    role: str
    kind: Kind = Field(description="`program`, or `call` for a single tool call without a program.")
    language: Language | None
    accepted_at: str = Field(description="ISO 8601, UTC.")
    finished_at: str | None
    execution_time: int | None = Field(description="Milliseconds from acceptance to the end.")
    truncated: bool
    output_bytes: int
    stderr_bytes: int
    code_bytes: int | None
    code_sha256: str | None
    cancelled_by: CancelledBy | None = Field(
        description="Who cancelled it: a `request`, the `disconnect` of its client, or the `shutdown` of the daemon."
    )
    warm: bool = Field(description="Whether the sandbox had been started in advance.")
    background: bool = Field(description="Whether it runs in the background, tied to no client.")
    skill: str | None = Field(description="The skill that it runs, as NAME@VERSION; null for a program.")
    tool_call_count: int = Field(description="How many tool calls it made; 0 in events while it runs.")
    tools: list[str] = Field(description="Up to four of the tools that it called, as SERVER/TOOL.")
    file_count: int = Field(description="How many files it left.")
    error: FaultBody | None

    @classmethod
    def of(cls, record: ExecutionRecord) -> ExecutionSummary:
        return cls.model_construct(**_summary(record))


class ExecutionReply(ExecutionSummary, Printed):
    """An execution with what it printed."""

    limits: LimitsBody | None
    metrics: MetricsBody
    mistakes: list[MistakeBody] = Field(
        description="What the check found: why a program was rejected, or probably failed."
    )
    tool_calls: list[ToolCallBody] = Field(description="Each tool call with its fate; never its values.")
    images: list[ImageBody] | None = Field(
        None, description="The pictures, in order; null where an execution is read from the journal, which keeps none."
    )
    files: list[FileBody] = Field(description="What it left in /workspace/out, to be read at each `url`.")
    files_left_out: list[LeftOutBody] = Field(description="Files that were not kept; the first ones by name.")
    files_left_out_count: int = Field(description="How many files were not kept.")
    workspace: WorkspaceEndBody | None = Field(description="What became of the workspace that it asked for.")

    @classmethod
    def of_result(cls, result: ExecutionResult, count_tokens: Callable[[str], int]) -> ExecutionReply:
        reply = cls.of_stored(result.record, result.stdout, result.stderr)
        reply.metrics.output_tokens = count_tokens(reply.output)
        reply.images = [ImageBody.of(image) for image in result.images]
        return reply

    @classmethod
    def of_stored(cls, record: ExecutionRecord, stdout: bytes, stderr: bytes) -> ExecutionReply:
        """Show one that ended earlier, from the journal."""
        cut = record.truncated
        return cls.model_construct(**_whole(record, text(stdout, cut=cut), text(stderr, cut=cut)))


class OutputRange(Body):
    """Which bytes of a stream are shown."""

    offset: int
    length: int
    total: int


class ExecutionDetail(ExecutionReply):
    """An execution with a piece of what it printed."""

    output_range: OutputRange
    stderr_range: OutputRange
    program_kept: bool = Field(description="Whether the journal has its code, to be read at `/program` below it.")
    input_files: list[str] = Field(description="The names of the files that it was given.")
    image_count: int = Field(description="How many pictures it showed; only the reply to the execution has them.")

    @classmethod
    def of_pages(cls, record: ExecutionRecord, stdout: Page, stderr: Page, offset: int) -> ExecutionDetail:
        ranges = [
            OutputRange(offset=offset, length=len(page.data), total=page.total_bytes) for page in (stdout, stderr)
        ]
        fields = _whole(record, text(stdout.data, cut=True), text(stderr.data, cut=True))
        return cls.model_construct(
            **fields,
            output_range=ranges[0],
            stderr_range=ranges[1],
            program_kept=record.program_kept,
            input_files=list(record.input_files),
            image_count=record.image_count,
        )


def files_path(execution_id: str) -> str:
    """Return where the files of an execution are."""
    return f"/executions/{quote(execution_id, safe='')}/files"


def text(data: bytes, *, cut: bool) -> str:
    """Decode what was printed; a character that the cut went through is left out, not replaced."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not cut)


def _summary(record: ExecutionRecord) -> dict[str, Any]:
    finished, counted = record.finished_at, record.counted
    return {
        "execution_id": record.id,
        "caller": record.caller,
        "role": record.role,
        "kind": record.kind,
        "state": record.state,
        "language": record.language,
        "outcome": record.outcome,
        "exit_code": record.exit_code,
        "accepted_at": iso(record.accepted_at),
        "finished_at": iso(finished) if finished is not None else None,
        "execution_time": round(record.timings.total_seconds * 1000) if record.state is State.FINISHED else None,
        "truncated": record.truncated,
        "output_bytes": record.stdout_bytes,
        "stderr_bytes": record.stderr_bytes,
        "code_bytes": record.code_bytes,
        "code_sha256": record.code_sha256,
        "cancelled_by": record.cancelled_by,
        "warm": record.warm,
        "background": record.background,
        "skill": record.skill,
        "tool_call_count": counted.call_count,
        "tools": list(counted.called),
        "file_count": counted.file_count,
        "error": FaultBody(code=record.error_code, detail=record.detail or "") if record.error_code else None,
    }


def _whole(record: ExecutionRecord, output: str, stderr: str) -> dict[str, Any]:
    timings, usage = record.timings, record.usage
    return {
        **_summary(record),
        "output": output,
        "stderr": stderr,
        "limits": LimitsBody.of(record.limits) if record.limits else None,
        "metrics": MetricsBody.model_construct(
            stderr_bytes=record.stderr_bytes,
            dropped_bytes=record.stdout_dropped_bytes + record.stderr_dropped_bytes,
            queue_ms=round(timings.queue_seconds * 1000, 3),
            start_ms=round(timings.start_seconds * 1000, 3),
            run_ms=round(timings.run_seconds * 1000, 3),
            cpu_ms=round(usage.cpu_seconds * 1000, 3),
            max_memory_bytes=usage.max_memory_bytes,
            output_tokens=None,
        ),
        "mistakes": [MistakeBody.of(mistake) for mistake in record.mistakes],
        "tool_calls": [ToolCallBody.of(call) for call in record.tool_calls],
        "images": None,
        "files": [FileBody.of(file, files_path(record.id)) for file in record.files],
        "files_left_out": [LeftOutBody.of(each) for each in record.left_out],
        "files_left_out_count": record.left_out_count,
        "workspace": WorkspaceEndBody.of(record.workspace) if record.workspace else None,
    }


def iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
