"""Small values that many tests need."""

from __future__ import annotations

import time

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.execution import Execution, ExecutionRecord, Language, Limits, State
from orchestrator.domain.ledger import CallOutcome, ToolCall

ADMIN = Caller("admin-key", Role("admin", frozenset({"*"}), sees_all_executions=True))
DEVELOPER = Caller("developer-key", Role("developer", frozenset({"postgres"})))
OTHER_DEVELOPER = Caller("other-key", Role("developer", frozenset({"postgres"})))


def limits(timeout_seconds: float = 30) -> Limits:
    """Return the limits of a program that ends by itself, with time to do so on a busy machine."""
    return Limits(
        timeout_seconds=timeout_seconds,
        max_output_bytes=100 * 1024,
        memory_bytes=1024**3,
        cpus=1.0,
        max_processes=256,
        workspace_bytes=500 * 1024**2,
        scratch_bytes=100 * 1024**2,
    )


def execution(code: str = "print(1)", id: str = "e1", caller: Caller = DEVELOPER) -> Execution:
    return Execution(id, caller, Language.PYTHON, code, limits(), time.time())


def record(id: str = "e1", caller: Caller = DEVELOPER, state: State = State.QUEUED) -> ExecutionRecord:
    return execution(id=id, caller=caller).record(state)


def refused(id: str = "r", code: str = "queue_full", detail: str = "full", at: float = 1.0) -> ExecutionRecord:
    return ExecutionRecord(
        id, DEVELOPER.key_name, DEVELOPER.role.name, State.REFUSED, at, finished_at=at, error_code=code, detail=detail
    )


def tool_call(outcome: CallOutcome = CallOutcome.DONE, tool: str = "query", duration_ms: float = 2.0) -> ToolCall:
    detail = None if outcome is CallOutcome.DONE else "in words"
    return ToolCall("postgres", tool, outcome, 1.5, duration_ms, request_bytes=30, result_bytes=4, detail=detail)
