"""What an execution did: each tool call with its fate. Never the arguments or the results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CallOutcome(StrEnum):
    DONE = "done"
    TOOL_ERROR = "tool_error"
    DENIED = "denied"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    LIMITED = "limited"
    IN_FLIGHT = "in_flight"
    NEVER_SENT = "never_sent"
    REPLAYED = "replayed"  # answered from a skill's recording: no server was called


# A call that was not sent took no time, and one that was cut off not all of it.
TIMED_OUTCOMES = frozenset({CallOutcome.DONE, CallOutcome.TOOL_ERROR, CallOutcome.UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class ToolCall:
    server: str
    tool: str
    outcome: CallOutcome
    started_ms: float
    duration_ms: float
    request_bytes: int
    result_bytes: int
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as it stands now, with its place in the journal."""

    execution_id: str
    number: int
    call: ToolCall
