from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.execution import Ending, ExecutionResult, Image, Outcome, Timings
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.faces.mcp.report import as_text, report
from tests.support.samples import record

COUNTER = O200kTokenCounter()
ENDED = replace(record().ended(Ending(Outcome.COMPLETED, exit_code=0), 0.0), timings=Timings(0, 0.1, 0.2))
RESULT = ExecutionResult(ENDED, stdout=b"hello\n")


def changed(*, ending: Ending | None = None, tool_calls: tuple[ToolCall, ...] = (), **printed) -> ExecutionResult:
    ended = ENDED if ending is None else ENDED.ended(ending, 0.0)
    return replace(RESULT, record=replace(ended, tool_calls=tool_calls), **printed)


def told(**changes) -> str:
    return as_text(report(changed(**changes), 20_000, COUNTER))


def test_a_completed_program_is_told_in_a_few_lines():
    assert told() == (
        "completed, exit code 0, 0.3 s, execution e1\n\nstdout:\nhello\n\n"
        "limits: 5 s, 1 GiB memory, 1 CPU, 100 KiB output, 256 processes"
    )


def test_stderr_stands_apart():
    assert "stdout:\nhello\n\nstderr:\nbeware" in told(stderr=b"beware\n")


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        (Ending(Outcome.FAILED, exit_code=3), "exited with code 3; it printed nothing to stderr"),
        (Ending(Outcome.FAILED, exit_code=139, signal=11), "The program was ended by signal 11."),
        (Ending(Outcome.TIMED_OUT), "because it reached its time limit of 5 s."),
        (Ending(Outcome.OUT_OF_MEMORY), "more than 1 GiB of memory"),
        (Ending(Outcome.OUTPUT_LIMIT), "because it printed 100 KiB to one stream"),
        (Ending(Outcome.CANCELLED), "was cancelled"),
        (
            Ending(Outcome.SANDBOX_ERROR, error_code="engine_unavailable", detail="No engine."),
            "not the program: No engine (engine_unavailable). Run it again.",
        ),
    ],
)
def test_each_ending_names_its_cause_before_the_output(ending, cause):
    text = told(ending=ending)
    assert text.startswith(ending.outcome.value)
    assert cause in text.split("\n\n")[0]


def test_truncation_is_said_first_with_the_call_that_reads_the_rest():
    data = b"".join(b"row %d\n" % number for number in range(60_000))
    found = report(changed(stdout=data), 20_000, COUNTER)
    first = as_text(found).split("\n\n")[0]
    assert found.truncated
    assert "output shortened" in first
    assert 'get_execution {"executionId": "e1", "stream": "stdout", "offset": ' in first


@pytest.mark.parametrize("budget", [4000, 20_000])
@pytest.mark.parametrize("line", [b'"quoted\\" \n', b"plain words in a row\n", b"\xff\n", "数据\n".encode()])
def test_the_structured_reply_and_the_text_both_fit_the_budget(budget, line):
    calls = tuple(_call(number) for number in range(100))
    result = changed(stdout=line * 50_000, stderr=line * 50_000, tool_calls=calls)
    found = report(result, budget, COUNTER)
    assert COUNTER.count(found.model_dump_json(by_alias=True)) <= budget
    assert COUNTER.count(as_text(found)) <= budget


def test_the_ledger_is_one_line_a_call_and_says_how_many_there_were():
    text = told(tool_calls=tuple(_call(number) for number in range(45)))
    assert "tool calls (45):\npostgres/query done 1.5 ms 10 bytes" in text
    assert "… and 5 more" in text


def test_pictures_are_counted():
    assert report(changed(images=(Image("image/png", b"x"),)), 20_000, COUNTER).images == 1


def _call(number: int) -> ToolCall:
    return ToolCall("postgres", "query", CallOutcome.DONE, number, 1.5, 5, 10)
