"""One suite for the journal in memory and the one in SQLite."""

from dataclasses import replace

import pytest

from orchestrator.domain.execution import (
    Ending,
    ExecutionResult,
    Outcome,
    Page,
    Refusal,
    State,
    Stream,
    Timings,
    Usage,
)
from orchestrator.domain.ledger import CallOutcome, CallRecord, ToolCall
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.fake_journal import FakeJournal
from tests.support.samples import ADMIN, DEVELOPER, execution, limits, tool_call


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request, tmp_path):
    if request.param == "memory":
        yield FakeJournal()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1000)
    yield journal
    await journal.close()


def result_of(id: str, stdout: bytes = b"out", calls: tuple[ToolCall, ...] = ()) -> ExecutionResult:
    ending = Ending(Outcome.FAILED, exit_code=3, usage=Usage(0.5, 1024))
    return ExecutionResult(
        id, ending, stdout, b"err", limits(), Timings(0.1, 0.2, 0.3), finished_at=2.0, tool_calls=calls
    )


async def test_an_execution_is_remembered_from_the_queue_to_its_end(journal):
    await journal.open(execution(id="a"))
    assert (await journal.find("a")).state is State.QUEUED
    await journal.mark_running("a")
    assert (await journal.find("a")).state is State.RUNNING
    await journal.finish(result_of("a"))
    record = await journal.find("a")
    assert (record.state, record.outcome, record.exit_code) == (State.FINISHED, Outcome.FAILED, 3)
    assert (record.timings, record.usage, record.limits) == (Timings(0.1, 0.2, 0.3), Usage(0.5, 1024), limits())


async def calls_of(journal, id: str) -> tuple[ToolCall, ...]:
    return (await journal.find(id)).tool_calls


async def test_calls_are_remembered_as_they_stand_while_the_program_runs(journal):
    done, in_flight = tool_call(), tool_call(CallOutcome.IN_FLIGHT, tool="slow")
    for id in ("a", "b"):
        await journal.open(execution(id=id), State.RUNNING)
    await journal.record_calls([CallRecord("b", 0, done)])
    await journal.record_calls([CallRecord("a", 1, in_flight), CallRecord("a", 0, tool_call(CallOutcome.IN_FLIGHT))])
    await journal.record_calls([CallRecord("a", 0, done)])
    assert await calls_of(journal, "a") == (done, in_flight)
    assert await calls_of(journal, "b") == (done,)


async def test_the_end_tells_every_call_whether_it_was_recorded_before_or_not(journal):
    await journal.open(execution(id="a"), State.RUNNING)
    await journal.record_calls([CallRecord("a", 0, tool_call(CallOutcome.IN_FLIGHT))])
    told = (tool_call(CallOutcome.IN_FLIGHT, duration_ms=70.0), tool_call(CallOutcome.DENIED))
    await journal.finish(result_of("a", calls=told))
    assert await calls_of(journal, "a") == told


async def test_a_call_that_is_told_late_does_not_change_what_has_ended(journal):
    await journal.open(execution(id="a"), State.RUNNING)
    await journal.finish(result_of("a", calls=(tool_call(),)))
    await journal.record_calls([CallRecord("a", 0, tool_call(CallOutcome.TOOL_ERROR)), CallRecord("a", 1, tool_call())])
    assert await calls_of(journal, "a") == (tool_call(),)


async def test_an_interrupted_execution_keeps_its_calls_and_those_in_flight_stay_told_as_such(journal):
    calls = (tool_call(), tool_call(CallOutcome.IN_FLIGHT), tool_call(CallOutcome.NEVER_SENT))
    await journal.open(replace(execution(id="a"), idempotency_key="key"), State.RUNNING)
    await journal.record_calls([CallRecord("a", number, call) for number, call in enumerate(calls)])
    await journal.mark_interrupted()
    assert await calls_of(journal, "a") == calls
    assert (await journal.find_by_key(DEVELOPER.key_name, "key")).tool_calls == calls


async def test_output_is_read_by_range(journal):
    await journal.open(execution(id="a"))
    await journal.finish(result_of("a", stdout=b"0123456789"))
    assert await journal.output("a", Stream.STDOUT, 3, 4) == Page(b"3456", 10)
    assert await journal.output("a", Stream.STDOUT, 8, 100) == Page(b"89", 10)
    assert await journal.output("a", Stream.STDOUT, 50, 1) == Page(b"", 10)
    assert await journal.output("a", Stream.STDERR, 0, 100) == Page(b"err", 3)
    assert await journal.output("unknown", Stream.STDOUT, 0, 1) is None


async def test_a_stream_that_stayed_empty_has_no_output(journal):
    await journal.open(execution(id="a"))
    await journal.finish(result_of("a", stdout=b""))
    assert await journal.output("a", Stream.STDOUT, 0, 100) is None


async def test_binary_output_is_kept_to_the_byte(journal):
    noise = bytes(range(256)) * 4
    await journal.open(execution(id="a"))
    await journal.finish(result_of("a", stdout=noise))
    assert await journal.output("a", Stream.STDOUT, 0, 2000) == Page(noise, 1024)


async def test_refusals_are_remembered(journal):
    await journal.refuse(Refusal("r", DEVELOPER, "queue_full", "full", at=1.0))
    record = await journal.find("r")
    assert (record.state, record.error_code, record.outcome) == (State.REFUSED, "queue_full", None)


async def test_what_had_not_ended_becomes_interrupted(journal):
    for id in ("queued", "running", "finished"):
        await journal.open(execution(id=id))
    await journal.mark_running("running")
    await journal.finish(result_of("finished"))
    assert await journal.mark_interrupted() == 2
    states = {id: (await journal.find(id)).state for id in ("queued", "running", "finished")}
    assert states == {
        "queued": State.INTERRUPTED,
        "running": State.INTERRUPTED,
        "finished": State.FINISHED,
    }


async def test_the_list_is_newest_first_by_caller_and_pages(journal):
    for number in range(5):
        await journal.open(execution(id=f"d{number}"))
        await journal.open(execution(id=f"a{number}", caller=ADMIN))
    own = await journal.newest(caller=DEVELOPER.key_name, limit=10, before=None)
    assert [record.id for record in own] == ["d4", "d3", "d2", "d1", "d0"]
    first = await journal.newest(caller=None, limit=4, before=None)
    second = await journal.newest(caller=None, limit=4, before=first[-1].sequence)
    assert [record.id for record in (*first, *second)] == ["a4", "d4", "a3", "d3", "a2", "d2", "a1", "d1"]


async def test_what_is_no_text_is_kept_all_the_same(journal):
    await journal.open(execution(id="a"), State.RUNNING)
    await journal.record_calls([CallRecord("a", 0, tool_call(tool="\ud800"))])
    ending = Ending(Outcome.SANDBOX_ERROR, error_code="sandbox_error", detail="it said \udfff")
    await journal.finish(replace(result_of("a", calls=(tool_call(tool="\ud800"),)), ending=ending))
    await journal.refuse(Refusal("b", DEVELOPER, "invalid_request", "\ud800", 1.0))
    record = await journal.find("a")
    assert (record.state, len(record.tool_calls)) == (State.FINISHED, 1)
    assert (await journal.find("b")).state is State.REFUSED


async def test_the_list_is_without_calls_of_which_there_may_be_thousands(journal):
    await journal.open(execution(id="a"), State.RUNNING)
    await journal.finish(result_of("a", calls=(tool_call(),)))
    assert [record.tool_calls for record in await journal.newest(caller=None, limit=5, before=None)] == [()]
    assert await calls_of(journal, "a") == (tool_call(),)
