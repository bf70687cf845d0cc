"""The bodies of the HTTP API: one place for their names, types and documentation."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.execution import Language, Outcome, State
from orchestrator.domain.ledger import CallOutcome


class Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ExecuteRequest(Body):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, description="The program.")]
    language: Annotated[Language, Field(strict=False)] = Language.TYPESCRIPT
    timeout_seconds: Annotated[
        float | None, Field(gt=0, le=300, description="Time for the program, at most 300 s.")
    ] = None


class LimitsBody(Body):
    timeout_seconds: float
    max_output_bytes: int
    memory_bytes: int
    cpus: float
    max_processes: int
    workspace_bytes: int
    scratch_bytes: int


class MetricsBody(Body):
    output_tokens: int = Field(description="Tokens of `output`, counted with o200k.")
    stderr_bytes: int
    queue_ms: float = Field(description="Time spent waiting for a turn.")
    start_ms: float = Field(description="Time to get a sandbox.")
    run_ms: float = Field(description="Time that the program ran.")
    cpu_ms: float = Field(description="CPU time of the program and its children.")
    max_memory_bytes: int = Field(description="Largest resident memory of one process of the program.")


class FaultBody(Body):
    code: str
    detail: str


class ToolCallBody(Body):
    server: str
    tool: str
    outcome: CallOutcome
    started_ms: float = Field(description="Milliseconds from the program's start.")
    duration_ms: float
    request_bytes: int
    result_bytes: int
    detail: str | None


class ExecutionReply(Body):
    execution_id: str
    outcome: Outcome
    exit_code: int | None = Field(description="Exit status; 128 + n when signal n ended the program.")
    output: str = Field(description="stdout, up to the limit; invalid UTF-8 is replaced.")
    stderr: str
    execution_time: int = Field(description="Milliseconds from acceptance to the end.")
    truncated: bool
    output_bytes: int
    warm: bool = Field(description="Whether the sandbox had been started in advance.")
    limits: LimitsBody
    metrics: MetricsBody
    tool_calls: list[ToolCallBody] = Field(description="Each tool call with its fate; never its values.")
    error: FaultBody | None = Field(None, description="Only with `sandbox_error`: what failed on our side.")


class ExecutionSummary(Body):
    execution_id: str
    caller: str
    role: str
    state: State
    language: Language | None
    outcome: Outcome | None
    exit_code: int | None
    accepted_at: str
    finished_at: str | None
    execution_time: int | None
    truncated: bool
    output_bytes: int
    stderr_bytes: int
    code_bytes: int | None
    code_sha256: str | None
    error: FaultBody | None


class OutputRange(Body):
    offset: int
    length: int
    total: int


class ExecutionDetail(ExecutionSummary):
    output: str
    stderr: str
    output_range: OutputRange
    stderr_range: OutputRange
    limits: LimitsBody | None
    tool_calls: list[ToolCallBody]


class ExecutionList(Body):
    executions: list[ExecutionSummary]
    next: int | None = Field(description="Pass as `before` to read on; null at the end.")


class Health(Body):
    status: str
    version: str
    uptime: float
    servers: int
    total_tools: int
    tools_by_server: dict[str, int]
    upstreams: dict[str, str] = Field(description="State of each server, with its problem.")


class Problem(Body):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    execution_id: str | None = None
