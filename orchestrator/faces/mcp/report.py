"""An execution's result as a model reads it: how it ended and what was left out first, then what fits. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from orchestrator.domain.execution import ExecutionResult, Outcome
from orchestrator.faces.bodies import LimitsBody, ToolCallBody
from orchestrator.faces.mcp.excerpts import Preview, TokenCounter, preview
from orchestrator.faces.mcp.models import ExecutionReport

MAX_LEDGER_LINES = 40
MAX_DETAIL_CHARACTERS = 200
STDERR_SHARE = 5
MIN_OUTPUT_TOKENS = 200
KIB = 1024


def report(result: ExecutionResult, max_tokens: int, counter: TokenCounter) -> ExecutionReport:
    """Tell what became of a program; stdout gets the tokens that the rest leaves."""
    record = result.record
    stderr = preview(result.stderr, max_tokens // STDERR_SHARE, counter)
    frame = ExecutionReport(
        outcome=result.outcome,
        truncated=False,
        execution_id=result.execution_id,
        exit_code=record.exit_code,
        output="",
        stderr=stderr.text(_gap(stderr, "stderr")),
        output_bytes=len(result.stdout),
        stderr_bytes=len(result.stderr),
        seconds=round(record.timings.total_seconds, 3),
        tool_calls=[
            ToolCallBody.of(replace(call, detail=call.detail[:MAX_DETAIL_CHARACTERS] if call.detail else None))
            for call in record.tool_calls[:MAX_LEDGER_LINES]
        ],
        tool_call_count=len(record.tool_calls),
        images=len(result.images),
        limits=_limits(result),
    )
    spent = counter.count(frame.model_dump_json(by_alias=True)) + counter.count(_notice(result, None, stderr) or "")
    stdout = preview(result.stdout, max(MIN_OUTPUT_TOKENS, max_tokens - 2 * spent), counter)
    return frame.model_copy(
        update={
            "truncated": record.truncated or bool(stdout.left_out_bytes or stderr.left_out_bytes),
            "notice": _notice(result, stdout, stderr),
            "output": stdout.text(_gap(stdout, "stdout")),
        }
    )


def as_text(report: ExecutionReport) -> str:
    """Write a report for clients that show a model the text only."""
    exit_code = f", exit code {report.exit_code}" if report.exit_code is not None else ""
    shortened = ", output shortened" if report.truncated else ""
    headline = f"{report.outcome.value}{exit_code}{shortened}, {report.seconds:g} s, execution {report.execution_id}"
    sections = [f"{headline}\n{report.notice}" if report.notice else headline]
    output = report.output.removesuffix("\n")
    sections.append(f"stdout:\n{output}" if report.output else "stdout: empty")
    if report.stderr:
        stderr = report.stderr.removesuffix("\n")
        sections.append(f"stderr:\n{stderr}")
    if report.tool_calls:
        lines = [f"tool calls ({report.tool_call_count}):"]
        for call in report.tool_calls:
            done = f"{call.server}/{call.tool} {call.outcome.value} {call.duration_ms:g} ms {call.result_bytes} bytes"
            lines.append(f"{done} ({call.detail})" if call.detail else done)
        if more := report.tool_call_count - len(report.tool_calls):
            lines.append(f"… and {more} more")
        sections.append("\n".join(lines))
    limits = report.limits
    sections.append(
        f"limits: {limits.timeout_seconds:g} s, {_size(limits.memory_bytes)} memory, {limits.cpus:g} CPU, "
        f"{_size(limits.max_output_bytes)} output, {limits.max_processes} processes"
    )
    return "\n\n".join(sections)


def cause(result: ExecutionResult) -> str | None:
    """Say what is known of why it did not complete, and what to do next; nothing that is only supposed."""
    record, limits = result.record, _limits(result)
    match result.outcome:
        case Outcome.COMPLETED:
            return None
        case Outcome.FAILED if record.signal is not None:
            return f"The program was ended by signal {record.signal}. Correct the program and run it again."
        case Outcome.FAILED:
            said = "its error output is in stderr" if result.stderr else "it printed nothing to stderr"
            return f"The program exited with code {record.exit_code}; {said}. Correct the program and run it again."
        case Outcome.TIMED_OUT:
            return (
                f"The program was killed because it reached its time limit of {limits.timeout_seconds:g} s. "
                "Do less in one run, or ask for more time with timeoutSeconds."
            )
        case Outcome.OUT_OF_MEMORY:
            return (
                f"The program was killed because it needed more than {_size(limits.memory_bytes)} of memory. "
                "Work on smaller pieces."
            )
        case Outcome.OUTPUT_LIMIT:
            return (
                f"The program was killed because it printed {_size(limits.max_output_bytes)} to one stream, the most "
                "that is allowed. Print only what matters."
            )
        case Outcome.CANCELLED:
            return "The execution was cancelled. Run it again if you still want its result."
        case Outcome.SANDBOX_ERROR:
            reason = (record.detail or "The cause is not known").removesuffix(".")
            return f"The sandbox failed, not the program: {reason} ({record.error_code}). Run it again."
        case _:
            assert_never(result.outcome)


def _notice(result: ExecutionResult, stdout: Preview | None, stderr: Preview) -> str | None:
    reasons = [cause(result)]
    for stream, shown in (("stdout", stdout), ("stderr", stderr)):
        if shown is not None and shown.left_out_bytes:
            where = f'{{"executionId": "{result.execution_id}", "stream": "{stream}", "offset": {shown.head_bytes}}}'
            reasons.append(
                f"{stream} has {shown.total_bytes} bytes; {shown.left_out_bytes} in the middle are not shown. "
                f"Read them with get_execution {where}, search them with its `search`, or print less."
            )
    return " ".join(reason for reason in reasons if reason) or None


def _gap(shown: Preview, stream: str) -> str:
    return f"\n[… {shown.left_out_bytes} bytes of {stream} not shown, from offset {shown.head_bytes} …]\n"


def _limits(result: ExecutionResult) -> LimitsBody:
    assert result.record.limits is not None  # noqa: S101  (whatever was run had limits)
    return LimitsBody.of(result.record.limits)


def _size(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < KIB:
            return f"{size:g} {unit}"
        size = size // KIB if size % KIB == 0 else round(size / KIB, 1)  # type: ignore[assignment]
    return f"{size:g} GiB"
