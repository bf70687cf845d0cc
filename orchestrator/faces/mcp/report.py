"""An execution's result as a model reads it. Pure.

What we say stands before what the program printed, so that nothing printed can pass for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import assert_never

from orchestrator.domain.execution import ExecutionResult, FileRules, Image, Outcome, Stream
from orchestrator.faces.bodies import LeftOutBody, LimitsBody, MistakeBody, ToolCallBody, WorkspaceEndBody
from orchestrator.faces.mcp.excerpts import Preview, Room, TokenCounter, is_utf8, preview
from orchestrator.faces.mcp.file_lines import MAX_LISTED_FILES, entry, file_lines
from orchestrator.faces.mcp.ledger_lines import MAX_DETAIL_CHARACTERS, ledger_lines, seconds
from orchestrator.faces.mcp.messages import fitting, pictures_line
from orchestrator.faces.mcp.models import MOST_SECONDS, ExecutionReport

# Claude Code keeps 5,000 characters of each end of a reply with isError that has more than 10,000, and would so cut
# through our own cut: the offset that we name for what is missing would then be wrong.
MAX_FAILED_CHARACTERS = 9500
MAX_LISTED_CALLS = 40
LEDGER_SHARE = 0.25
FILES_SHARE = 0.2
# What stderr gets at most while stdout needs the rest: of a program that failed, it says why.
STDERR_SHARE = 0.2
STDERR_SHARE_IF_FAILED = 0.6
# For offsets that have more digits than was reckoned with.
MARGIN = 0.02
KIB = 1024
# Who waited less for a workspace or for others' programs is not told so.
LONG_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """A result within a model's means; `text` has it all."""

    result: ExecutionResult
    stdout: Preview
    stderr: Preview
    text: str
    pictures: tuple[Image, ...] = ()  # those that fit into the message

    @property
    def structured(self) -> ExecutionReport:
        """Return the same for programs."""
        record = self.result.record
        return ExecutionReport(
            outcome=self.result.outcome,
            truncated=_is_truncated(self.result, self.stdout, self.stderr),
            notice=" ".join(_notices(self.result, self.stdout, self.stderr, self.pictures)) or None,
            execution_id=self.result.execution_id,
            exit_code=record.exit_code,
            output=self.stdout.text(_gap(self.stdout)),
            stderr=self.stderr.text(_gap(self.stderr)),
            output_bytes=len(self.result.stdout),
            stderr_bytes=len(self.result.stderr),
            seconds=round(record.timings.total_seconds, 3),
            tool_calls=[
                ToolCallBody.of(replace(call, detail=call.detail[:MAX_DETAIL_CHARACTERS] if call.detail else None))
                for call in record.tool_calls[:MAX_LISTED_CALLS]
            ],
            tool_call_count=len(record.tool_calls),
            images=len(self.pictures),
            files=[entry(file) for file in record.files[:MAX_LISTED_FILES]],
            file_count=len(record.files),
            files_left_out=[LeftOutBody.of(each) for each in record.left_out],
            files_left_out_count=record.left_out_count,
            workspace=WorkspaceEndBody.of(record.workspace) if record.workspace else None,
            mistakes=[MistakeBody.of(mistake) for mistake in record.mistakes],
            limits=_limits(self.result),
        )


def report(
    result: ExecutionResult,
    max_tokens: int,
    counter: TokenCounter,
    rules: FileRules | None = None,
    *,
    in_new_workspace: bool = False,
) -> Report:
    """Tell what became of a program, and as much of what it printed and showed as then fits."""
    telling = (result, max_tokens, counter, rules, in_new_workspace)
    told = _told(*telling, result.images)
    if not result.images:
        return told
    # A reply may carry its text twice, for models and for programs.
    text_bytes = len(json.dumps([told.text, told.structured.model_dump(mode="json", by_alias=True)]))
    shown = fitting(result.images, text_bytes)
    return told if shown == result.images else _told(*telling, shown)


def _told(
    result: ExecutionResult,
    max_tokens: int,
    counter: TokenCounter,
    rules: FileRules | None,
    in_new_workspace: bool,
    pictures: tuple[Image, ...],
) -> Report:
    failed = result.outcome is not Outcome.COMPLETED
    room = Room(counter, max_tokens, MAX_FAILED_CHARACTERS) if failed else Room(counter, max_tokens)
    # What is said of the streams is not known yet, but it is no longer than if nothing of them were shown.
    most = (_all_left_out(result.stdout), _all_left_out(result.stderr))
    said = [_headline(result, *most), *_notices(result, *most, pictures)]
    frame = [*said, *map(_gap, most), "\n\nstdout:\n", "\n\nstderr:\n"]
    room = room.without("\n".join(frame)).part(1 - MARGIN)
    files = file_lines(result.record, room.part(FILES_SHARE), rules, in_new_workspace=in_new_workspace)
    room = room.without("\n".join(files))
    ledger = ledger_lines(result.record.tool_calls, room.part(LEDGER_SHARE), result.stderr.decode(errors="replace"))
    room = room.without("\n".join(ledger))
    stdout, stderr = _previews(result, room, STDERR_SHARE_IF_FAILED if failed else STDERR_SHARE)
    said = [_headline(result, stdout, stderr), *_notices(result, stdout, stderr, pictures), *files, *ledger]
    printed = [
        f"{stream}:\n{shown.text(_gap(shown)).removesuffix(chr(10))}"
        for stream, shown in ((Stream.STDOUT, stdout), (Stream.STDERR, stderr))
        if shown.total_bytes and not (stream is Stream.STDERR and result.outcome is Outcome.REJECTED)  # told already
    ]
    return Report(result, stdout, stderr, "\n\n".join(["\n".join(said), *printed]), pictures)


def cause(result: ExecutionResult) -> str | None:
    """Say what is known of why it did not complete, and what to do next; nothing that is only supposed."""
    record, limits = result.record, _limits(result)
    match result.outcome:
        case Outcome.COMPLETED:
            return None
        case Outcome.FAILED if record.signal is not None:
            return f"The program was ended by signal {record.signal}."
        case Outcome.FAILED:
            said = "see stderr" if result.stderr else "it printed nothing to stderr"
            return f"The program exited with code {record.exit_code}; {said}."
        case Outcome.TIMED_OUT:
            advice = "" if limits.timeout_seconds >= MOST_SECONDS else ", or ask for more time with timeoutSeconds"
            return (
                f"The program was killed because it reached its time limit of {limits.timeout_seconds:g} s. "
                f"Do less in one run{advice}."
            )
        case Outcome.OUT_OF_MEMORY:
            return (
                f"The program was killed because it needed more than {_size(limits.memory_bytes)} of memory. "
                "Work on smaller pieces."
            )
        case Outcome.OUTPUT_LIMIT:
            return (
                f"The program was killed because it printed more than {_size(limits.flood_bytes)} to one stream. "
                "Print only what matters."
            )
        case Outcome.REJECTED:
            return "It was rejected before its first tool call, so nothing was changed. Correct this and run it again:"
        case Outcome.CANCELLED:
            return "The execution was cancelled. Run it again if you still want its result."
        case Outcome.SANDBOX_ERROR:
            reason = (record.detail or "The cause is not known").removesuffix(".")
            return f"The sandbox failed, not the program: {reason} ({record.error_code}). Run it again."
        case _:
            assert_never(result.outcome)


def _previews(result: ExecutionResult, room: Room, stderr_share: float) -> tuple[Preview, Preview]:
    """Show both streams; what one of them does not need is the other's."""
    stderr = preview(result.stderr, room.part(stderr_share))
    stdout = preview(result.stdout, room.without(stderr.text("")))
    if stderr.left_out_bytes and not stdout.left_out_bytes:
        stderr = preview(result.stderr, room.without(stdout.text("")))
    return stdout, stderr


def _headline(result: ExecutionResult, stdout: Preview, stderr: Preview) -> str:
    timings = result.record.timings
    if timings.queue_seconds < LONG_WAIT_SECONDS:
        told = f"{result.outcome} in {seconds(timings.total_seconds)}"
    else:
        took = seconds(timings.start_seconds + timings.run_seconds)
        told = f"{result.outcome} in {took}, after waiting {seconds(timings.queue_seconds)} for its turn"
    if _is_truncated(result, stdout, stderr):
        told = f"{told}, output truncated"
    # An id takes some twenty tokens: it is told where there is something to ask for, and once.
    to_ask_for = result.outcome not in (Outcome.COMPLETED, Outcome.REJECTED) or result.record.files
    if to_ask_for and not (stdout.left_out_bytes or stderr.left_out_bytes):
        told = f"{told}, execution {result.execution_id}"
    return told


def _notices(result: ExecutionResult, stdout: Preview, stderr: Preview, pictures: tuple[Image, ...]) -> list[str]:
    """Say what went wrong or is missing, and what to do next."""
    notices = [cause(result)]
    if result.record.mistakes and result.outcome is not Outcome.REJECTED:
        notices.append("The check of the program found:")
    notices += [f"line {mistake.line}: {mistake.message}" for mistake in result.record.mistakes]
    limits = _limits(result)
    record = result.record
    for stream, printed, dropped, shown in (
        (Stream.STDOUT, result.stdout, record.stdout_dropped_bytes, stdout),
        (Stream.STDERR, result.stderr, record.stderr_dropped_bytes, stderr),
    ):
        if not dropped and not is_utf8(printed):  # a drop may cut a character, which is no fault of the program
            notices.append(f"{stream}: \ufffd stands for bytes that are not UTF-8.")
        if dropped:
            notices.append(
                f"{stream}: of more than {_size(limits.max_output_bytes)} only both ends are kept; {dropped} bytes "
                "between them were dropped. Print less, or write it to /workspace/out, where get_execution reads it."
            )
        if shown.left_out_bytes:
            which = "" if stream is Stream.STDOUT else f'"stream": "{stream}", '
            where = f'{{"executionId": "{result.execution_id}", {which}"offset": {shown.head_bytes}}}'
            notices.append(
                f"{stream}: {shown.left_out_bytes} of {shown.total_bytes} bytes are not shown. Read them with "
                f"get_execution {where}, find lines with its `search`, or print less."
            )
    has_left = result.images or record.files or record.workspace
    if result.outcome is Outcome.COMPLETED and not (stdout.total_bytes or stderr.total_bytes or has_left):
        notices.append("It printed nothing. Print what you want to see.")
    if result.images:
        notices.append(pictures_line(result.images, pictures))
    return [notice for notice in notices if notice]


def _is_truncated(result: ExecutionResult, stdout: Preview, stderr: Preview) -> bool:
    return result.record.truncated or bool(stdout.left_out_bytes or stderr.left_out_bytes)


def _all_left_out(data: bytes) -> Preview:
    return Preview("", "", 0, 0, len(data))


def _gap(shown: Preview) -> str:
    return f"[… {shown.left_out_bytes} bytes not shown, from offset {shown.head_bytes} …]"


def _limits(result: ExecutionResult) -> LimitsBody:
    assert result.record.limits is not None  # noqa: S101  (whatever was run had limits)
    return LimitsBody.of(result.record.limits)


def _size(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < KIB:
            return f"{size:g} {unit}"
        size = size // KIB if size % KIB == 0 else round(size / KIB, 1)  # type: ignore[assignment]
    return f"{size:g} GiB"
