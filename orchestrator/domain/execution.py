"""One execution, from request to record. A record is the one description of it: journal and faces derive from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Self

from orchestrator.domain.access import Caller
from orchestrator.domain.files import File, FileLimits, LeftOut, WorkspaceEnd, WorkspaceUse
from orchestrator.domain.ledger import ToolCall

MEBIBYTE = 1024 * 1024
LONGEST_SECONDS = 24 * 3600  # the most that a role may allow an execution in the background


class Language(StrEnum):
    # No docstring: every schema with a language would repeat it.
    suffixes: tuple[str, ...]  # of its source files; the first is the one that we write
    idle_bytes: int  # what an idle sandbox costs, with all that the engine keeps beside the sandbox; measured in bench/

    TYPESCRIPT = "typescript", (".ts", ".mts"), 55 * MEBIBYTE
    PYTHON = "python", (".py",), 30 * MEBIBYTE

    # The defaults only tell type checkers that Language("python") finds a member.
    def __new__(cls, value: str, suffixes: tuple[str, ...] = (), idle_bytes: int = 0) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.suffixes = suffixes
        member.idle_bytes = idle_bytes
        return member

    @property
    def suffix(self) -> str:
        return self.suffixes[0]


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    REJECTED = "rejected"  # the check found what surely fails; no tool was called
    CANCELLED = "cancelled"
    SANDBOX_ERROR = "sandbox_error"

    @property
    def in_words(self) -> str:
        """Say how a program ended, to follow its name: "took too long"."""
        return _IN_WORDS.get(self, f"ended as {self}")


_IN_WORDS = {
    Outcome.COMPLETED: "completed",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "took too long",
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.OUTPUT_LIMIT: "printed too much",
    Outcome.CANCELLED: "was cancelled",
}


class Check(StrEnum):
    """What the check of a program is for, before its first tool call."""

    STRICT = "strict"  # to reject a program that surely fails
    WARN = "warn"  # to explain why it failed
    OFF = "off"


class CancelledBy(StrEnum):
    REQUEST = "request"  # of somebody who may
    DISCONNECT = "disconnect"  # of the last client that waited for it
    SHUTDOWN = "shutdown"  # of the daemon


MOST_CALLED = 4  # tools that a list tells of an execution


class Kind(StrEnum):
    PROGRAM = "program"
    CALL = "call"  # of one tool, that no program made


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
    flood_bytes: int = 16 * MEBIBYTE  # printed to one stream, they end the program


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """What one execution may do through the gateway."""

    max_calls: int
    max_concurrent_calls: int
    max_request_bytes: int
    max_total_bytes: int
    call_timeout_seconds: float
    max_held_result_bytes: int = 64 * MEBIBYTE
    max_searches: int = 200
    max_images: int = 10
    max_images_bytes: int = 4 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of something there may be at once: in all, and for one caller, so that it leaves the others theirs."""

    total: int
    per_caller: int


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """What the daemon and each server hold for tool calls at most."""

    result_bytes: Shares = Shares(256 * MEBIBYTE, 128 * MEBIBYTE)
    request_bytes: Shares = Shares(64 * MEBIBYTE, 32 * MEBIBYTE)
    calls_per_server: Shares = Shares(64, 16)
    request_bytes_per_server: Shares = Shares(32 * MEBIBYTE, 8 * MEBIBYTE)
    sessions_per_server: Shares = Shares(8, 6)


@dataclass(frozen=True, slots=True)
class FileRules:
    """How much may be given, kept and uploaded."""

    inputs: FileLimits
    outputs: FileLimits
    workspace: FileLimits
    max_upload_bytes: int
    max_uploads: int  # of one caller
    ttl_seconds: float
    held_bytes: Shares  # of contents that came with requests, until their programs have them


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the caller: one that the program emitted, or that a tool returned to it."""

    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a sandbox is prepared for: the language, and the files that it finds, by their digest."""

    language: Language
    files_digest: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the check found, at which place of the program."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How the program ended, as the supervisor and the engine saw it; never from what it printed."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage = Usage()
    error_code: str | None = None
    detail: str | None = None
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    queue_seconds: float = 0.0
    start_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def total_seconds(self) -> float:
        return self.queue_seconds + self.start_seconds + self.run_seconds


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """All that is known of one execution but its code and its output, which may be large and are read apart."""

    id: str
    caller: str
    role: str
    state: State
    accepted_at: float
    kind: Kind = Kind.PROGRAM
    instance: str = ""
    sequence: int = 0  # its place in the journal, which gives it
    language: Language | None = None
    code_sha256: str | None = None
    code_bytes: int | None = None
    finished_at: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error_code: str | None = None
    detail: str | None = None
    cancelled_by: CancelledBy | None = None
    warm: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_dropped_bytes: int = 0  # printed beyond the limit, and not kept
    stderr_dropped_bytes: int = 0
    mistakes: tuple[Mistake, ...] = ()
    limits: Limits | None = None
    timings: Timings = Timings()
    usage: Usage = Usage()
    background: bool = False
    skill: str | None = None  # the one that it runs, as NAME@VERSION
    inputs_sha256: str = ""  # of the files that it was given and the workspace that it asked for
    input_files: tuple[str, ...] = ()  # the names of those files
    image_count: int = 0  # pictures that it showed, which only the reply has
    files: tuple[File, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # files that were not kept; the first ones by name
    left_out_count: int = 0
    workspace: WorkspaceEnd | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    # Found out by the journal: how many tool calls there are, also where they are not told; whether it has the code.
    call_count: int = field(default=0, compare=False)
    called: tuple[str, ...] = field(default=(), compare=False)  # some of the tools, as SERVER/TOOL
    file_count: int = field(default=0, compare=False)
    program_kept: bool = field(default=False, compare=False)

    @property
    def counted(self) -> ExecutionRecord:
        """Return it with what lists tell of its calls and files, if it has them; a list has only what they told."""
        if not (self.tool_calls or self.files):
            return self
        called = dict.fromkeys(f"{call.server}/{call.tool}" for call in self.tool_calls)
        return replace(
            self,
            call_count=len(self.tool_calls),
            called=tuple(called)[:MOST_CALLED],
            file_count=len(self.files),
        )

    @property
    def truncated(self) -> bool:
        dropped = self.stdout_dropped_bytes + self.stderr_dropped_bytes
        return dropped > 0 or self.outcome is Outcome.OUTPUT_LIMIT

    @property
    def under_way(self) -> bool:
        return self.state in (State.QUEUED, State.RUNNING)

    @property
    def never_ran(self) -> bool:
        return self.outcome is Outcome.SANDBOX_ERROR and self.timings.run_seconds == 0

    @property
    def cut_off(self) -> bool:
        """Whether it ended before it had a result, though nobody asked for that."""
        by_accident = self.cancelled_by in (CancelledBy.DISCONNECT, CancelledBy.SHUTDOWN)
        return by_accident or self.state is State.INTERRUPTED or self.never_ran

    def ended(self, ending: Ending, at: float) -> ExecutionRecord:
        return replace(
            self,
            state=State.FINISHED,
            finished_at=at,
            outcome=ending.outcome,
            exit_code=ending.exit_code,
            signal=ending.signal,
            usage=ending.usage,
            error_code=ending.error_code,
            detail=ending.detail,
            stdout_dropped_bytes=ending.stdout_dropped_bytes,
            stderr_dropped_bytes=ending.stderr_dropped_bytes,
            mistakes=ending.mistakes,
        )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The record of an execution under way, with its calls so far, and the key that it was asked for with."""

    record: ExecutionRecord
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """A program and who wants it run, under which limits."""

    id: str
    caller: Caller
    language: Language
    code: str
    limits: Limits
    accepted_at: float
    idempotency_key: str | None = None
    check: Check = Check.STRICT
    background: bool = False
    inputs_sha256: str = ""
    input_files: tuple[str, ...] = ()
    workspace: WorkspaceUse | None = None
    skill: str | None = None

    def record(self, state: State, instance: str = "") -> ExecutionRecord:
        """Describe it as it begins."""
        code = self.code.encode()
        return ExecutionRecord(
            id=self.id,
            caller=self.caller.key_name,
            role=self.caller.role.name,
            state=state,
            accepted_at=self.accepted_at,
            instance=instance,
            language=self.language,
            code_sha256=sha256(code).hexdigest(),
            code_bytes=len(code),
            limits=self.limits,
            background=self.background,
            skill=self.skill,
            inputs_sha256=self.inputs_sha256,
            input_files=self.input_files,
        )


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The record of an execution that ended, with what it printed and showed."""

    record: ExecutionRecord
    stdout: bytes = b""
    stderr: bytes = b""
    images: tuple[Image, ...] = ()

    @property
    def execution_id(self) -> str:
        return self.record.id

    @property
    def outcome(self) -> Outcome:
        return self.record.outcome or Outcome.SANDBOX_ERROR


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted; what is None does not matter."""

    caller: str | None = None
    kind: Kind | None = None
    state: State | None = None
    outcome: Outcome | None = None
    language: Language | None = None
    server: str | None = None
    tool: str | None = None  # of `server`
    text: str | None = None  # a piece of the program, of what it printed, of an error or of the id, in any case
    since: float | None = None
    until: float | None = None
    before: int | None = None  # in sequence: the page that follows


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of an execution's stored output."""

    data: bytes
    total_bytes: int
