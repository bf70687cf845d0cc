"""From the domain's values to the bodies of the API."""

from __future__ import annotations

import codecs
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache

from orchestrator.domain.execution import ExecutionRecord, ExecutionResult, Limits, Outcome, Page
from orchestrator.domain.ledger import ToolCall
from orchestrator.faces.http.context import TokenCounter
from orchestrator.faces.http.schemas import (
    ExecutionDetail,
    ExecutionReply,
    ExecutionSummary,
    FaultBody,
    LimitsBody,
    MetricsBody,
    OutputRange,
    ToolCallBody,
)


def reply(result: ExecutionResult, tokens: TokenCounter) -> ExecutionReply:
    output = text(result.stdout, cut=result.truncated)
    return ExecutionReply(
        execution_id=result.execution_id,
        outcome=result.outcome,
        exit_code=result.ending.exit_code,
        output=output,
        stderr=text(result.stderr, cut=result.truncated),
        execution_time=_ms(result.timings.total_seconds),
        truncated=result.truncated,
        output_bytes=len(result.stdout),
        warm=result.warm,
        limits=_limits(result.limits),
        metrics=_metrics(result, tokens.count(output)),
        tool_calls=[tool_call(call) for call in result.tool_calls],
        error=_fault(result.ending.error_code, result.ending.detail),
    )


def summary(record: ExecutionRecord) -> ExecutionSummary:
    return ExecutionSummary(
        execution_id=record.id,
        caller=record.caller,
        role=record.role,
        state=record.state,
        language=record.language,
        outcome=record.outcome,
        exit_code=record.exit_code,
        accepted_at=_iso(record.accepted_at),
        finished_at=_iso(record.finished_at) if record.finished_at is not None else None,
        execution_time=_ms(record.timings.total_seconds) if record.timings else None,
        truncated=record.outcome is Outcome.OUTPUT_LIMIT,
        output_bytes=record.stdout_bytes,
        stderr_bytes=record.stderr_bytes,
        code_bytes=record.code_bytes,
        code_sha256=record.code_sha256,
        error=_fault(record.error_code, record.detail),
    )


def detail(record: ExecutionRecord, stdout: Page, stderr: Page, offset: int) -> ExecutionDetail:
    return ExecutionDetail(
        **summary(record).model_dump(),
        output=text(stdout.data, cut=True),
        stderr=text(stderr.data, cut=True),
        output_range=_range(stdout, offset),
        stderr_range=_range(stderr, offset),
        limits=_limits(record.limits) if record.limits else None,
        tool_calls=[tool_call(call) for call in record.tool_calls],
    )


def tool_call(call: ToolCall) -> ToolCallBody:
    return ToolCallBody.model_validate(asdict(call))


def text(data: bytes, *, cut: bool) -> str:
    """Valid text whatever was printed; a character that the cut went through is left out, not replaced."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not cut)


def _metrics(result: ExecutionResult, output_tokens: int) -> MetricsBody:
    timings, usage = result.timings, result.ending.usage
    return MetricsBody(
        output_tokens=output_tokens,
        stderr_bytes=len(result.stderr),
        queue_ms=round(timings.queue_seconds * 1000, 3),
        start_ms=round(timings.start_seconds * 1000, 3),
        run_ms=round(timings.run_seconds * 1000, 3),
        cpu_ms=round(usage.cpu_seconds * 1000, 3),
        max_memory_bytes=usage.max_memory_bytes,
    )


@lru_cache(maxsize=64)  # most executions have the same ones
def _limits(limits: Limits) -> LimitsBody:
    return LimitsBody.model_validate(asdict(limits))


def _range(page: Page, offset: int) -> OutputRange:
    return OutputRange(offset=offset, length=len(page.data), total=page.total_bytes)


def _fault(code: str | None, message: str | None) -> FaultBody | None:
    return FaultBody(code=code, detail=message or "") if code is not None else None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
