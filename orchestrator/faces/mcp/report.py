"""An execution's result as a model reads it: how it ended and what was left out first, then what fits. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from orchestrator.domain.execution import ExecutionResult, Outcome
from orchestrator.faces.bodies import LimitsBody, ToolCallBody
from orchestrator.faces.mcp.models import ExecutionReport
from orchestrator.faces.mcp.preview import Preview, TokenCounter, preview

MAX_LEDGER_LINES = 40
MAX_DETAIL_CHARACTERS = 200
STDERR_SHARE = 5
MIN_OUTPUT_TOKENS = 200
KIB = 1024
NEWLINE = "\n"


def report(result: ExecutionResult, max_tokens: int, counter: TokenCounter) -> ExecutionReport:
    stderr = preview(result.stderr, max_tokens // STDERR_SHARE, counter)
    frame = _frame(result, stderr)
    spent = counter.count(frame.model_dump_json(by_alias=True)) + counter.count(_notice(result, None, stderr) or "")
    stdout = preview(result.stdout, max(MIN_OUTPUT_TOKENS, max_tokens - 2 * spent), counter)
    return frame.model_copy(
        update={
            "truncated": result.record.truncated or bool(stdout.left_out_bytes or stderr.left_out_bytes),
            "notice": _notice(result, stdout, stderr),
            "output": stdout.text(_gap(stdout, "stdout", result.execution_id)),
        }
    )


def as_text(report: ExecutionReport) -> str:
    sections = [_headline(report), _section("stdout", report.output)]
    if report.stderr:
        sections.append(_section("stderr", report.stderr))
    if report.tool_calls:
        sections.append(_section(f"tool calls ({report.tool_call_count})", _ledger_text(report)))
    sections.append(_limits_text(report.limits))
    return "\n\n".join(sections)


def cause(result: ExecutionResult) -> str | None:
    """What is known of why it did not complete, and what to do next; nothing that is only supposed."""
    limits = _limits(result)
    match result.outcome:
        case Outcome.COMPLETED:
            return None
        case Outcome.FAILED:
            return f"{_failure(result)} Correct the program and run it again."
        case Outcome.TIMED_OUT:
            return (
                f"The program was killed when its {limits.timeout_seconds:g} s were over. "
                "Do less in one run, or ask for more time with timeoutSeconds."
            )
        case Outcome.OUT_OF_MEMORY:
            return (
                f"The program was killed when it wanted more than {_size(limits.memory_bytes)} of memory. "
                "Work on smaller pieces."
            )
        case Outcome.OUTPUT_LIMIT:
            return (
                f"The program was killed when it had printed {_size(limits.max_output_bytes)} on one stream. "
                "Print only what matters."
            )
        case Outcome.CANCELLED:
            return "The execution was cancelled. Run it again if you still want its result."
        case Outcome.SANDBOX_ERROR:
            record = result.record
            return f"The sandbox failed, not the program: {record.detail} ({record.error_code}). Run it again."
        case _:
            assert_never(result.outcome)


def _frame(result: ExecutionResult, stderr: Preview) -> ExecutionReport:
    """Everything but stdout, whose share depends on what this takes."""
    return ExecutionReport(
        outcome=result.outcome,
        truncated=False,
        execution_id=result.execution_id,
        exit_code=result.record.exit_code,
        output="",
        stderr=stderr.text(_gap(stderr, "stderr", result.execution_id)),
        output_bytes=len(result.stdout),
        stderr_bytes=len(result.stderr),
        seconds=round(result.record.timings.total_seconds, 3),
        tool_calls=[
            ToolCallBody.of(replace(call, detail=call.detail[:MAX_DETAIL_CHARACTERS] if call.detail else None))
            for call in result.record.tool_calls[:MAX_LEDGER_LINES]
        ],
        tool_call_count=len(result.record.tool_calls),
        images=len(result.images),
        limits=_limits(result),
    )


def _notice(result: ExecutionResult, stdout: Preview | None, stderr: Preview) -> str | None:
    reasons = [cause(result)]
    for name, shown in (("stdout", stdout), ("stderr", stderr)):
        if shown is not None and shown.left_out_bytes:
            reasons.append(_left_out(name, shown, result.execution_id))
    return " ".join(reason for reason in reasons if reason) or None


def _left_out(stream: str, shown: Preview, execution_id: str) -> str:
    return (
        f"{stream} has {shown.total_bytes} bytes; {shown.left_out_bytes} in the middle are not shown. Read them with "
        f'get_execution {{"executionId": "{execution_id}", "stream": "{stream}", "offset": {shown.head_bytes}}}, '
        "search them with its `search`, or print less."
    )


def _gap(shown: Preview, stream: str, execution_id: str) -> str:
    return f"\n[… {shown.left_out_bytes} bytes of {stream} not shown, from offset {shown.head_bytes} …]\n"


def _failure(result: ExecutionResult) -> str:
    if result.record.signal is not None:
        return f"Signal {result.record.signal} ended the program."
    said = "what it said is in stderr" if result.stderr else "it said nothing on stderr"
    return f"The program exited with code {result.record.exit_code}; {said}."


def _headline(report: ExecutionReport) -> str:
    exit_code = f", exit code {report.exit_code}" if report.exit_code is not None else ""
    shortened = ", output shortened" if report.truncated else ""
    line = f"{report.outcome.value}{exit_code}{shortened}, {report.seconds:g} s, execution {report.execution_id}"
    return f"{line}\n{report.notice}" if report.notice else line


def _section(title: str, text: str) -> str:
    return f"{title}:\n{text.removesuffix(NEWLINE)}" if text else f"{title}: empty"


def _ledger_text(report: ExecutionReport) -> str:
    lines = [_ledger_row(line) for line in report.tool_calls]
    more = report.tool_call_count - len(lines)
    return "\n".join([*lines, f"… and {more} more"] if more else lines)


def _ledger_row(line: ToolCallBody) -> str:
    detail = f" ({line.detail})" if line.detail else ""
    return f"{line.server}/{line.tool} {line.outcome.value} {line.duration_ms:g} ms {line.result_bytes} bytes{detail}"


def _limits(result: ExecutionResult) -> LimitsBody:
    assert result.record.limits is not None  # noqa: S101  (whatever was run had limits)
    return LimitsBody.of(result.record.limits)


def _limits_text(limits: LimitsBody) -> str:
    return (
        f"limits: {limits.timeout_seconds:g} s, {_size(limits.memory_bytes)} memory, {limits.cpus:g} CPU, "
        f"{_size(limits.max_output_bytes)} output, {limits.max_processes} processes"
    )


def _size(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < KIB:
            return f"{size:g} {unit}"
        size = size // KIB if size % KIB == 0 else round(size / KIB, 1)  # type: ignore[assignment]
    return f"{size:g} GiB"
