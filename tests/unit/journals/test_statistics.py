"""What is counted over many executions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.domain.errors import JournalUnavailable, QuestionTooLarge
from orchestrator.domain.execution import Ending, ExecutionResult, Filter, Kind, Language, Outcome, Timings
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.domain.statistics import Percentiles, Span
from orchestrator.journals import sqlite
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.samples import ADMIN, DEVELOPER, record, refused

HOUR = Span(since=0.0, until=3600.0, buckets=60)


@pytest.fixture
async def journal(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1000)
    yield journal
    await journal.close()


async def ran(journal, id, *, at, ms=100.0, outcome=Outcome.COMPLETED, caller=DEVELOPER, calls=(), printed=b"", **more):
    begun = replace(record(id=id, caller=caller), accepted_at=at, **more)
    await journal.open(begun)
    timings = Timings(0.01, 0.0, ms / 1000 - 0.01)
    ended = replace(begun.ended(Ending(outcome), at + ms / 1000), timings=timings, tool_calls=tuple(calls))
    await journal.finish(ExecutionResult(replace(ended, stdout_bytes=len(printed)), printed))


def call(tool="query", ms=5.0, outcome=CallOutcome.DONE, size=100):
    return ToolCall("postgres", tool, outcome, 1.0, ms, 10, size)


async def test_nothing_happened_is_told_as_such(journal):
    counted = await journal.statistics(HOUR)
    assert (counted.executions, counted.tool_calls, counted.tools, counted.callers) == (0, 0, (), ())
    assert counted.latency == Percentiles()
    assert len(counted.buckets) == 60


async def test_executions_are_counted_by_outcome_language_caller_and_time(journal):
    await ran(journal, "a", at=30.0)
    await ran(journal, "b", at=90.0, outcome=Outcome.FAILED, caller=ADMIN, language=Language.TYPESCRIPT)
    await ran(journal, "c", at=91.0, outcome=Outcome.CANCELLED)
    counted = await journal.statistics(HOUR)
    assert counted.outcomes == {Outcome.COMPLETED: 1, Outcome.FAILED: 1, Outcome.CANCELLED: 1}
    assert counted.languages == {Language.PYTHON: 2, Language.TYPESCRIPT: 1}
    assert counted.roles == {"developer": 2, "admin": 1}
    assert [(bucket.executions, bucket.failed) for bucket in counted.buckets[:3]] == [(1, 0), (2, 1), (0, 0)]
    assert [(each.caller, each.executions, each.failed) for each in counted.callers] == [
        (DEVELOPER.key_name, 2, 0),
        (ADMIN.key_name, 1, 1),
    ]


async def test_only_the_time_and_the_caller_that_were_asked_for_count(journal):
    await ran(journal, "before", at=-1.0)
    await ran(journal, "first", at=0.0)
    await ran(journal, "others", at=1.0, caller=ADMIN)
    await ran(journal, "after", at=3600.0)
    assert (await journal.statistics(HOUR)).executions == 2
    assert (await journal.statistics(replace(HOUR, caller=DEVELOPER.key_name))).executions == 1
    assert (await journal.statistics(replace(HOUR, caller="nobody"))).executions == 0


async def test_refusals_and_single_calls_are_no_executions_but_calls_count(journal):
    await journal.open(refused("r", at=5.0))
    await ran(journal, "call", at=6.0, kind=Kind.CALL, calls=[call()])
    counted = await journal.statistics(HOUR)
    assert (counted.executions, counted.tool_calls) == (0, 1)


async def test_latency_is_told_in_percentiles(journal):
    for number in range(1, 101):
        await ran(journal, str(number), at=float(number), ms=number * 10)
    latency = (await journal.statistics(HOUR)).latency
    assert (latency.p50, latency.p90, latency.p95, latency.p99) == (500, 900, 950, 990)
    assert (await journal.statistics(HOUR)).queue.p99 == 10


async def test_tools_are_counted_with_their_errors_and_times(journal):
    calls = [call(ms=float(number)) for number in range(1, 21)]
    calls += [call("slow", 900.0, CallOutcome.TOOL_ERROR), call("slow", 5.0, CallOutcome.IN_FLIGHT)]
    await ran(journal, "a", at=70.0, calls=calls)
    counted = await journal.statistics(HOUR)
    query, slow = counted.tools
    assert (query.tool, query.calls, query.errors, query.p50_ms, query.p95_ms, query.max_ms) == (
        "query",
        20,
        0,
        10,
        19,
        20,
    )
    assert (slow.calls, slow.errors, slow.p50_ms, slow.max_ms) == (2, 1, 900, 900)
    assert (counted.buckets[1].tool_calls, counted.buckets[1].tool_errors) == (22, 1)
    assert counted.result_bytes == 2200
    assert counted.callers[0].tool_calls == 22


async def test_times_of_calls_that_were_not_sent_do_not_count(journal):
    calls = [call(ms=250.0), call(ms=0.0, outcome=CallOutcome.DENIED), call(ms=9000.0, outcome=CallOutcome.IN_FLIGHT)]
    await ran(journal, "a", at=1.0, calls=[*calls, call("secret", 0.0, CallOutcome.DENIED)])
    query, secret = (await journal.statistics(HOUR)).tools
    assert (query.calls, query.errors, query.p50_ms, query.max_ms) == (3, 1, 250, 250)
    assert (secret.calls, secret.errors, secret.p50_ms, secret.max_ms) == (1, 1, None, None)


@pytest.mark.parametrize(
    ("took", "told"), [(0.123, 0.12), (4.56, 4.6), (12.34, 12), (123.4, 120), (98_765.0, 99_000), (300_400.0, 300_000)]
)
async def test_the_time_of_a_tool_is_told_in_two_digits_and_its_longest_exactly(journal, took, told):
    await ran(journal, "a", at=1.0, calls=[call(ms=took)])
    (query,) = (await journal.statistics(HOUR)).tools
    assert (query.p50_ms, query.p95_ms, query.max_ms) == (told, told, took)


async def test_what_was_saved_is_counted_for_each_program_that_called_tools(journal):
    await ran(journal, "filters", at=1.0, calls=[call(size=1000)], printed=b"x" * 100)
    await ran(journal, "explains", at=2.0, calls=[call(size=10)], printed=b"x" * 500)
    await ran(journal, "prints only", at=3.0, printed=b"x" * 700)
    await ran(journal, "direct", at=4.0, kind=Kind.CALL, calls=[call(size=5000)])
    counted = await journal.statistics(HOUR)
    assert (counted.result_bytes, counted.printed_bytes, counted.withheld_bytes) == (1010, 600, 900)


def test_a_time_is_told_in_as_many_pieces_as_were_asked_for():
    span = Span(since=0.1, until=0.1 + 24 * 3600 + 0.7, buckets=60)
    assert span.bucket_of(span.since) == 0
    assert span.bucket_of(span.until - 0.001) == 59
    assert span.since + 60 * span.bucket_seconds == pytest.approx(span.until)


async def test_the_slowest_and_the_largest_are_named(journal):
    for number in range(1, 16):
        await ran(journal, str(number), at=float(number), ms=20.0 * number, printed=b"x" * (16 - number))
    counted = await journal.statistics(HOUR)
    assert [each.execution_id for each in counted.slowest] == [str(number) for number in range(15, 5, -1)]
    assert [each.execution_id for each in counted.largest] == [str(number) for number in range(1, 11)]


async def test_a_question_that_takes_too_long_is_given_up_and_nothing_else_waits(journal, monkeypatch):
    await ran(journal, "a", at=1.0)
    monkeypatch.setattr(sqlite, "LONGEST_QUESTION_SECONDS", -1.0)
    monkeypatch.setattr(sqlite, "INSTRUCTIONS_BETWEEN_LOOKS", 1)
    with pytest.raises(QuestionTooLarge):
        await journal.statistics(HOUR)
    assert (await journal.find("a")).id == "a"
    monkeypatch.undo()
    assert (await journal.statistics(HOUR)).executions == 1


async def test_a_journal_that_was_taken_away_is_noticed_by_who_only_reads(journal, tmp_path):
    await ran(journal, "a", at=1.0)
    assert len(await journal.newest(Filter(), 10)) == 1
    (tmp_path / "journal.sqlite3").rename(tmp_path / "elsewhere")
    with pytest.raises(JournalUnavailable):
        await journal.newest(Filter(), 10)
    await journal.check()
    assert await journal.newest(Filter(), 10) == []
    assert (await journal.statistics(HOUR)).executions == 0
