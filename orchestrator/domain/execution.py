"""One execution, from request to record."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from orchestrator.domain.access import Caller
from orchestrator.domain.ledger import ToolCall


class Language(StrEnum):
    TYPESCRIPT = "typescript"
    PYTHON = "python"


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    SANDBOX_ERROR = "sandbox_error"


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_seconds: float
    max_output_bytes: int
    memory_bytes: int
    cpus: float
    max_processes: int
    workspace_bytes: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """What one execution may do through the gateway."""

    max_calls: int
    max_concurrent_calls: int
    max_request_bytes: int
    max_total_bytes: int
    call_timeout_seconds: float
    max_images: int = 10
    max_images_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the caller: one that the program emitted, or that a tool returned to it."""

    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a sandbox is prepared for: the language, and the role's wrappers by their digest."""

    language: Language
    wrappers: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    id: str
    caller: Caller
    language: Language
    code: str
    limits: Limits
    accepted_at: float
    idempotency_key: str | None = None

    @property
    def code_bytes(self) -> int:
        return len(self.code.encode())

    @property
    def code_sha256(self) -> str:
        return sha256(self.code.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How the program ended, as the supervisor and the engine saw it; never from what it printed."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage = Usage()
    error_code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Timings:
    queue_seconds: float = 0.0
    start_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def total_seconds(self) -> float:
        return self.queue_seconds + self.start_seconds + self.run_seconds


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    execution_id: str
    ending: Ending
    stdout: bytes
    stderr: bytes
    limits: Limits
    timings: Timings
    finished_at: float
    tool_calls: tuple[ToolCall, ...] = ()
    warm: bool = False
    images: tuple[Image, ...] = ()

    @property
    def outcome(self) -> Outcome:
        return self.ending.outcome

    @property
    def truncated(self) -> bool:
        return self.outcome is Outcome.OUTPUT_LIMIT


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that was turned away before anything ran."""

    execution_id: str
    caller: Caller
    error_code: str
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """What the journal remembers of one execution; its output is read apart, by range."""

    sequence: int
    id: str
    caller: str
    role: str
    state: State
    accepted_at: float
    language: Language | None = None
    code_sha256: str | None = None
    code_bytes: int | None = None
    finished_at: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error_code: str | None = None
    detail: str | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    limits: Limits | None = None
    timings: Timings | None = None
    usage: Usage | None = None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of an execution's stored output."""

    data: bytes
    total_bytes: int
