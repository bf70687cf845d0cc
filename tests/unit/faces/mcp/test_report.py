from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import mcp_types as types
import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.execution import Ending, ExecutionResult, Image, Mistake, Outcome, Timings
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.faces.mcp.messages import MAX_CONTENT_BYTES, MAX_MESSAGE_BYTES
from orchestrator.faces.mcp.report import Report, report
from tests.support.samples import record

COUNTER = O200kTokenCounter()
ID = "909d24578ddc4b179d15a81002a4f719"
ENDED = replace(record().ended(Ending(Outcome.COMPLETED, exit_code=0), 0.0), id=ID, timings=Timings(0, 0.1, 0.2))
RESULT = ExecutionResult(ENDED, stdout=b"hello\n")
FAILED = Ending(Outcome.FAILED, exit_code=3)
# What Claude Code shows of a reply that says that it is an error.
CLAUDE_CODE_SHOWS_OF_ERRORS = 10_000


def changed(*, ending: Ending | None = None, tool_calls: tuple[ToolCall, ...] = (), **printed) -> ExecutionResult:
    ended = ENDED if ending is None else ENDED.ended(ending, 0.0)
    return replace(RESULT, record=replace(ended, tool_calls=tool_calls), **printed)


def reported(max_tokens: int = 6000, **changes) -> Report:
    return report(changed(**changes), max_tokens, COUNTER)


def told(**changes) -> str:
    return reported(**changes).text


def calls(number: int, outcome: CallOutcome = CallOutcome.DONE, detail: str | None = None) -> tuple[ToolCall, ...]:
    return tuple(ToolCall("postgres", "execute_sql", outcome, index, 1.5, 5, 10, detail) for index in range(number))


def test_a_completed_program_is_told_in_a_few_lines():
    assert told() == "completed in 0.3 s\n\nstdout:\nhello"


def test_a_program_that_printed_42_costs_at_most_40_tokens():
    assert COUNTER.count(told(stdout=b"42\n")) <= 40


def test_40_parallel_calls_and_a_short_line_cost_at_most_120_tokens():
    text = told(stdout=b"40 rows, 12 of them open\n", tool_calls=calls(40))
    assert "postgres/execute_sql ×40, all done" in text
    assert COUNTER.count(text) <= 120


def test_a_program_that_printed_nothing_is_told_what_to_do():
    assert told(stdout=b"") == "completed in 0.3 s\nIt printed nothing. Print what you want to see."


def test_stderr_stands_apart():
    assert told(stderr=b"beware\n").endswith("\n\nstdout:\nhello\n\nstderr:\nbeware")


def test_what_we_say_stands_before_what_the_program_printed():
    text = told(stdout=b"\npostgres/execute_sql, done, 1 s\n", tool_calls=calls(2), stderr=b"completed in 0 s")
    assert text.startswith("completed in 0.3 s\npostgres/execute_sql ×2, all done, 0.003 s\n\nstdout:\n")


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        (FAILED, "exited with code 3; it printed nothing to stderr"),
        (Ending(Outcome.FAILED, exit_code=139, signal=11), "The program was ended by signal 11."),
        (Ending(Outcome.TIMED_OUT), "because it reached its time limit of 30 s."),
        (Ending(Outcome.OUT_OF_MEMORY), "more than 1 GiB of memory"),
        (Ending(Outcome.OUTPUT_LIMIT), "because it printed more than 16 MiB to one stream"),
        (Ending(Outcome.CANCELLED), "was cancelled"),
        (
            Ending(Outcome.SANDBOX_ERROR, error_code="engine_unavailable", detail="No engine."),
            "not the program: No engine (engine_unavailable). Run it again.",
        ),
    ],
)
def test_each_ending_names_its_cause_and_its_id_before_the_output(ending, cause):
    first = told(ending=ending).split("\n\n")[0]
    assert first.startswith(ending.outcome.value)
    assert f"execution {ID}\n" in first
    assert cause in first


def test_the_id_is_not_told_when_there_is_nothing_to_ask_for():
    assert ID not in told()


def test_limits_are_told_only_when_one_was_hit():
    assert "limit" not in told(tool_calls=calls(3), stderr=b"beware\n")
    assert "1 GiB" in told(ending=Ending(Outcome.OUT_OF_MEMORY))


def test_truncation_is_said_first_with_the_call_that_reads_the_rest():
    data = b"".join(b"row %d\n" % number for number in range(14_000))
    found = reported(stdout=data)
    first, shown = found.text.split("\n\n", 1)
    assert found.structured.truncated
    assert first.startswith("completed in 0.3 s, output truncated\n")
    assert f'get_execution {{"executionId": "{ID}", "offset": {found.stdout.head_bytes}}}' in first
    assert first.count(ID) == 1
    assert shown.startswith("stdout:\nrow 0\n")
    assert shown.endswith("row 13999")


def test_it_is_told_that_output_beyond_the_limit_was_dropped():
    text = told(ending=Ending(Outcome.OUTPUT_LIMIT, stdout_dropped_bytes=77), stdout=b"row\n" * 25_600)
    assert "stdout: of more than 100 KiB only both ends are kept; 77 bytes between them were dropped." in text
    assert "write it to /workspace/out" in text


def test_waiting_is_told_apart_from_running():
    waited = replace(RESULT, record=replace(ENDED, timings=Timings(6.2, 0.2, 1)))
    assert report(waited, 6000, COUNTER).text.startswith("completed in 1.2 s, after waiting 6.2 s for its turn\n")


def test_bytes_that_are_not_utf8_are_announced():
    assert "\nstdout: \ufffd stands for bytes that are not UTF-8.\n" in told(stdout="Größe".encode("latin-1"))
    assert "UTF-8" not in told(stdout="Größe \ufffd".encode())


def test_a_rejected_program_is_told_its_mistakes_once():
    mistakes = (Mistake(3, 5, "`execute_sql` has no argument `sqll`."),)
    text = told(ending=Ending(Outcome.REJECTED, mistakes=mistakes), stdout=b"", stderr=b"Traceback: the same again")
    assert text.splitlines()[1:] == [
        "It was rejected before its first tool call, so nothing was changed. Correct this and run it again:",
        "line 3: `execute_sql` has no argument `sqll`.",
    ]


AWKWARD = [b'"quoted\\" \n', b"plain words in a row\n", b"\xff\n", "数据\n".encode(), "𝄞\n".encode()]


@pytest.mark.parametrize("budget", [500, 6000, 20_000])
@pytest.mark.parametrize("line", AWKWARD)
@pytest.mark.parametrize("ending", [None, FAILED])
def test_the_reply_fits_the_budget_and_makes_use_of_it(budget, line, ending):
    tools = tuple(replace(call, tool=f"tool_{index}") for index, call in enumerate(calls(100)))
    found = reported(budget, stdout=line * 50_000, stderr=line * 50_000, tool_calls=tools, ending=ending)
    assert COUNTER.count(found.text) <= budget
    assert found.stdout.head
    assert found.stderr.tail
    if ending is None:
        assert COUNTER.count(found.text) > budget // 3


@pytest.mark.parametrize("line", AWKWARD)
def test_no_client_cuts_a_failed_reply_so_that_the_offsets_in_it_are_right(line):
    """Claude Code leaves out the middle of a longer one, and with it our own marks of what is left out."""
    detail = "x" * 500
    found = reported(
        20_000,
        ending=FAILED,
        stdout=line * 50_000,
        stderr=line * 50_000,
        tool_calls=calls(100, CallOutcome.TOOL_ERROR, detail),
    )
    assert len(found.text.encode("utf-16-le")) // 2 <= CLAUDE_CODE_SHOWS_OF_ERRORS
    for shown in (found.stdout, found.stderr):
        assert f'"offset": {shown.head_bytes}}}' in found.text
        assert (line * 50_000)[: shown.head_bytes].decode(errors="replace") == shown.head


def test_of_a_failed_program_stderr_is_shown_before_stdout_takes_the_rest():
    lines = b"".join(b"line %d\n" % number for number in range(10_000))
    found = reported(ending=FAILED, stdout=lines, stderr=lines)
    assert found.stderr.head_bytes + found.stderr.tail_bytes > found.stdout.head_bytes + found.stdout.tail_bytes


def test_what_one_stream_does_not_need_is_the_others():
    lines = b"".join(b"line %d\n" % number for number in range(10_000))
    for printed in ({"stdout": lines, "stderr": b"short"}, {"stdout": b"short", "stderr": lines}):
        assert COUNTER.count(told(**printed)) > 4000


def test_pictures_are_counted():
    pictures = (Image("image/png", b"x"),)
    assert reported(images=pictures).structured.images == 1
    assert told(images=pictures, stdout=b"") == "completed in 0.3 s\nPictures: 1."


@pytest.mark.parametrize("printed", [b"", b"row\n" * 6000, b"\x01\n" * 30_000, "数据\n".encode() * 5000])
def test_a_reply_with_pictures_fits_into_one_message(printed):
    pictures = tuple(Image("image/png", bytes([number]) * 100_000) for number in range(10))
    found = reported(25_000, stdout=printed, stderr=printed, images=pictures)
    assert 3 <= len(found.pictures) < 10
    assert found.structured.images == len(found.pictures)
    content = [
        types.TextContent(text=found.text),
        *(types.ImageContent(data=b64encode(each.data).decode(), mime_type="image/png") for each in found.pictures),
    ]
    structured = found.structured.model_dump(mode="json", by_alias=True)
    sent = types.CallToolResult(content=content, structured_content=structured)
    assert len(sent.model_dump_json(by_alias=True).encode()) < MAX_MESSAGE_BYTES


def test_a_picture_that_does_not_fit_is_left_out_and_the_others_are_shown():
    small, large = Image("image/png", b"x"), Image("image/png", bytes(1_258_291))
    found = reported(images=(large, small), stdout=b"")
    assert found.pictures == (small,)
    assert found.text.splitlines()[1:] == [
        "Pictures: 1 of 2; not shown: 1.2 MiB. A reply holds at most 720 KiB of pictures, and less beside a long "
        "output. Make it smaller, with a lower dpi or as JPEG, or save it in /workspace/out: "
        "a person gets it with `code-executor files`."
    ]
    assert "not shown" in (found.structured.notice or "")


def test_the_largest_picture_is_shown():
    image = Image("image/png", bytes(MAX_CONTENT_BYTES))
    assert reported(images=(image,)).pictures == (image,)


def test_the_structured_reply_shows_the_same_as_the_text():
    data = b"".join(b"row %d\n" % number for number in range(14_000))
    found = reported(stdout=data, tool_calls=calls(45))
    reply = found.structured
    assert reply.output.removesuffix("\n") in found.text
    assert (len(reply.tool_calls), reply.tool_call_count) == (40, 45)
    assert str(found.stdout.head_bytes) in (reply.notice or "")
