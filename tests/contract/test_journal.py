"""One suite for the journal in memory and the one in SQLite."""

from dataclasses import replace

import pytest

from orchestrator.domain.execution import (
    Ending,
    ExecutionResult,
    Filter,
    Kind,
    Language,
    Outcome,
    Page,
    State,
    Stream,
    Timings,
    Unfinished,
    Usage,
)
from orchestrator.domain.ledger import CallOutcome, CallRecord, ToolCall
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.fake_journal import FakeJournal
from tests.support.samples import ADMIN, DEVELOPER, limits, record, refused, tool_call


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request, tmp_path):
    if request.param == "memory":
        yield FakeJournal()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1000)
    yield journal
    await journal.close()


FAILED = Ending(Outcome.FAILED, exit_code=3, usage=Usage(0.5, 1024))


def result_of(
    id: str, stdout: bytes = b"out", calls: tuple[ToolCall, ...] = (), ending: Ending = FAILED
) -> ExecutionResult:
    ended = record(id=id).ended(ending, at=2.0)
    sizes = {"stdout_bytes": len(stdout), "stderr_bytes": 3}
    told = replace(ended, timings=Timings(0.1, 0.2, 0.3), tool_calls=calls, warm=True, **sizes)
    return ExecutionResult(told, stdout, b"err")


async def test_an_execution_is_remembered_from_the_queue_to_its_end(journal):
    await journal.open(record(id="a"))
    assert (await journal.find("a")).state is State.QUEUED
    await journal.mark_running("a")
    assert (await journal.find("a")).state is State.RUNNING
    await journal.finish(result_of("a"))
    found = await journal.find("a")
    assert (found.state, found.outcome, found.exit_code) == (State.FINISHED, Outcome.FAILED, 3)
    assert (found.timings, found.usage, found.limits) == (Timings(0.1, 0.2, 0.3), Usage(0.5, 1024), limits())


async def calls_of(journal, id: str) -> tuple[ToolCall, ...]:
    return (await journal.find(id)).tool_calls


async def test_calls_are_remembered_as_they_stand_while_the_program_runs(journal):
    done, in_flight = tool_call(), tool_call(CallOutcome.IN_FLIGHT, tool="slow")
    for id in ("a", "b"):
        await journal.open(record(id=id, state=State.RUNNING))
    await journal.record_calls([CallRecord("b", 0, done)])
    await journal.record_calls([CallRecord("a", 1, in_flight), CallRecord("a", 0, tool_call(CallOutcome.IN_FLIGHT))])
    await journal.record_calls([CallRecord("a", 0, done)])
    assert await calls_of(journal, "a") == (done, in_flight)
    assert await calls_of(journal, "b") == (done,)


async def test_the_end_tells_every_call_whether_it_was_recorded_before_or_not(journal):
    await journal.open(record(id="a", state=State.RUNNING))
    await journal.record_calls([CallRecord("a", 0, tool_call(CallOutcome.IN_FLIGHT))])
    told = (tool_call(CallOutcome.IN_FLIGHT, duration_ms=70.0), tool_call(CallOutcome.DENIED))
    await journal.finish(result_of("a", calls=told))
    assert await calls_of(journal, "a") == told


async def test_a_call_that_is_told_late_does_not_change_what_has_ended(journal):
    await journal.open(record(id="a", state=State.RUNNING))
    await journal.finish(result_of("a", calls=(tool_call(),)))
    await journal.record_calls([CallRecord("a", 0, tool_call(CallOutcome.TOOL_ERROR)), CallRecord("a", 1, tool_call())])
    assert await calls_of(journal, "a") == (tool_call(),)


async def test_an_interrupted_execution_keeps_its_calls_and_those_in_flight_stay_told_as_such(journal):
    calls = (tool_call(), tool_call(CallOutcome.IN_FLIGHT), tool_call(CallOutcome.NEVER_SENT))
    await journal.open(record(id="a", state=State.RUNNING), "key")
    await journal.record_calls([CallRecord("a", number, call) for number, call in enumerate(calls)])
    await journal.mark_interrupted("")
    assert await calls_of(journal, "a") == calls
    assert (await journal.find_by_key(DEVELOPER.key_name, "key")).tool_calls == calls


async def test_a_key_names_the_newest_execution_that_it_was_used_for(journal):
    await journal.open(record(id="first"), "key")
    await journal.open(record(id="another caller's", caller=ADMIN), "key")
    await journal.finish(result_of("first"))
    await journal.open(record(id="second"), "key")
    assert (await journal.find_by_key(DEVELOPER.key_name, "key")).id == "second"
    assert (await journal.find_by_key(ADMIN.key_name, "key")).id == "another caller's"
    assert (await journal.find("first")).exit_code == 3


async def test_an_end_is_remembered_even_if_the_beginning_was_lost(journal):
    await journal.finish(result_of("a", stdout=b"out", calls=(tool_call(),)), "key")
    found = await journal.find_by_key(DEVELOPER.key_name, "key")
    assert (found.id, found.state, found.outcome) == ("a", State.FINISHED, Outcome.FAILED)
    assert found.tool_calls == (tool_call(),)
    assert await journal.output("a", Stream.STDOUT, 0, 10) == Page(b"out", 3)


async def test_a_key_that_another_execution_took_stays_with_it_when_an_end_is_told_late(journal):
    await journal.open(record(id="newer"), "key")
    await journal.finish(result_of("older"), "key")
    assert (await journal.find("older")).state is State.FINISHED
    assert (await journal.find_by_key(DEVELOPER.key_name, "key")).id == "newer"


async def test_a_journal_that_took_anothers_place_learns_what_is_under_way_and_that_nothing_else_is(journal):
    """It may be an older copy, in which some of it still runs and something else never ended."""
    for id, instance in (("known", "me"), ("stale", "me"), ("theirs", "another")):
        await journal.open(replace(record(id=id, state=State.RUNNING), instance=instance))
    await journal.open(replace(record(id="ended", state=State.RUNNING), instance="me"))
    await journal.finish(result_of("ended"))
    now = [replace(record(id=id, state=State.RUNNING), instance="me") for id in ("known", "lost", "ended")]
    now[1] = replace(now[1], tool_calls=(tool_call(),))
    await journal.take_over("me", [Unfinished(each, f"key of {each.id}") for each in now])
    states = {id: (await journal.find(id)).state for id in ("known", "lost", "stale", "theirs", "ended")}
    assert states == {
        "known": State.RUNNING,
        "lost": State.RUNNING,
        "stale": State.INTERRUPTED,
        "theirs": State.RUNNING,
        "ended": State.FINISHED,
    }
    lost = await journal.find_by_key(DEVELOPER.key_name, "key of lost")
    assert (lost.id, lost.tool_calls, lost.outcome) == ("lost", (tool_call(),), None)
    await journal.record_calls([CallRecord("lost", 1, tool_call())])
    await journal.finish(result_of("lost", calls=(tool_call(), tool_call())))
    assert (await journal.find("lost")).outcome is Outcome.FAILED


async def test_output_is_read_by_range(journal):
    await journal.open(record(id="a"))
    await journal.finish(result_of("a", stdout=b"0123456789"))
    assert await journal.output("a", Stream.STDOUT, 3, 4) == Page(b"3456", 10)
    assert await journal.output("a", Stream.STDOUT, 8, 100) == Page(b"89", 10)
    assert await journal.output("a", Stream.STDOUT, 50, 1) == Page(b"", 10)
    assert await journal.output("a", Stream.STDERR, 0, 100) == Page(b"err", 3)
    assert await journal.output("unknown", Stream.STDOUT, 0, 1) is None


async def test_a_stream_that_stayed_empty_has_no_output(journal):
    await journal.open(record(id="a"))
    await journal.finish(result_of("a", stdout=b""))
    assert await journal.output("a", Stream.STDOUT, 0, 100) is None


async def test_binary_output_is_kept_to_the_byte(journal):
    noise = bytes(range(256)) * 4
    await journal.open(record(id="a"))
    await journal.finish(result_of("a", stdout=noise))
    assert await journal.output("a", Stream.STDOUT, 0, 2000) == Page(noise, 1024)


async def test_refusals_are_remembered(journal):
    await journal.open(refused("r"))
    found = await journal.find("r")
    assert (found.state, found.error_code, found.outcome) == (State.REFUSED, "queue_full", None)


async def test_what_had_not_ended_becomes_interrupted(journal):
    for id in ("queued", "running", "finished"):
        await journal.open(record(id=id))
    await journal.mark_running("running")
    await journal.finish(result_of("finished"))
    assert await journal.mark_interrupted("") == 2
    states = {id: (await journal.find(id)).state for id in ("queued", "running", "finished")}
    assert states == {
        "queued": State.INTERRUPTED,
        "running": State.INTERRUPTED,
        "finished": State.FINISHED,
    }


async def test_the_list_is_newest_first_by_caller_and_pages(journal):
    for number in range(5):
        await journal.open(record(id=f"d{number}"))
        await journal.open(record(id=f"a{number}", caller=ADMIN))
    own = await journal.newest(Filter(caller=DEVELOPER.key_name), 10)
    assert [found.id for found in own] == ["d4", "d3", "d2", "d1", "d0"]
    first = await journal.newest(Filter(), 4)
    second = await journal.newest(Filter(before=first[-1].sequence), 4)
    assert [found.id for found in (*first, *second)] == ["a4", "d4", "a3", "d3", "a2", "d2", "a1", "d1"]


async def test_what_is_no_text_is_kept_all_the_same(journal):
    await journal.open(record(id="a", state=State.RUNNING))
    await journal.record_calls([CallRecord("a", 0, tool_call(tool="\ud800"))])
    ending = Ending(Outcome.SANDBOX_ERROR, error_code="sandbox_error", detail="it said \udfff")
    await journal.finish(result_of("a", calls=(tool_call(tool="\ud800"),), ending=ending))
    await journal.open(refused("b", "invalid_request", "\ud800"))
    found = await journal.find("a")
    assert (found.state, len(found.tool_calls)) == (State.FINISHED, 1)
    assert (await journal.find("b")).state is State.REFUSED


async def test_the_list_is_without_calls_of_which_there_may_be_thousands(journal):
    await journal.open(record(id="a", state=State.RUNNING))
    await journal.finish(result_of("a", calls=(tool_call(),)))
    assert [found.tool_calls for found in await journal.newest(Filter(), 5)] == [()]
    assert await calls_of(journal, "a") == (tool_call(),)


async def test_a_record_comes_back_as_it_was_given(journal):
    given = replace(result_of("a", calls=(tool_call(),)).record, instance="daemon-1", kind=Kind.PROGRAM)
    await journal.open(replace(record(id="a"), instance="daemon-1"))
    await journal.finish(ExecutionResult(given, b"out", b"err"))
    found = await journal.find("a")
    assert replace(found, sequence=0, accepted_at=given.accepted_at) == given


async def test_recovery_marks_only_what_its_own_instance_had_under_way(journal):
    for id, instance in (("mine", "daemon-1"), ("theirs", "daemon-2"), ("before instances were recorded", "")):
        await journal.open(replace(record(id=id, state=State.RUNNING), instance=instance))
    assert await journal.mark_interrupted("daemon-1") == 2
    theirs = await journal.find("theirs")
    mine = await journal.find("mine")
    assert (theirs.state, theirs.outcome) == (State.RUNNING, None)
    assert (mine.state, mine.outcome, mine.error_code) == (State.INTERRUPTED, Outcome.SANDBOX_ERROR, "interrupted")
    assert (mine.limits, mine.detail) == (limits(), "The daemon stopped before the program ended.")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), ["call", "refused", "typescript", "python"]),
        (Filter(kind=Kind.CALL), ["call"]),
        (Filter(state=State.REFUSED), ["refused"]),
        (Filter(state=State.FINISHED), ["call", "python"]),
        (Filter(outcome=Outcome.FAILED), ["python"]),
        (Filter(outcome=Outcome.TIMED_OUT), []),
        (Filter(language=Language.TYPESCRIPT), ["typescript"]),
        (Filter(caller=ADMIN.key_name), ["typescript"]),
        (Filter(server="postgres"), ["call", "python"]),
        (Filter(server="postgres", tool="query"), ["python"]),
        (Filter(server="query"), []),
        (Filter(since=20.0), ["call", "refused", "typescript"]),
        (Filter(until=20.0), ["python"]),
        (Filter(since=20.0, until=30.0), ["typescript"]),
        (Filter(caller=DEVELOPER.key_name, server="postgres", outcome=Outcome.FAILED, until=11.0), ["python"]),
    ],
)
async def test_the_list_can_be_narrowed(journal, wanted, found):
    python = replace(record(id="python"), accepted_at=10.0)
    await journal.open(python)
    await journal.finish(ExecutionResult(replace(python.ended(FAILED, 11.0), tool_calls=(tool_call(), tool_call()))))
    await journal.open(replace(record(id="typescript", caller=ADMIN), accepted_at=20.0, language=Language.TYPESCRIPT))
    await journal.open(refused("refused", at=30.0))
    call = replace(record(id="call"), kind=Kind.CALL, language=None, accepted_at=40.0)
    await journal.open(call)
    done = call.ended(Ending(Outcome.COMPLETED), 41.0)
    await journal.finish(ExecutionResult(replace(done, tool_calls=(tool_call(tool="other"),))))
    assert [each.id for each in await journal.newest(wanted, 10)] == found


async def test_a_program_is_kept_beside_its_execution(journal):
    await journal.open(record(id="a"), None, "print('é\0')")
    await journal.open(record(id="b"))
    assert await journal.program("a") == "print('é\0')"
    assert (await journal.find("a")).program_kept
    assert not (await journal.find("b")).program_kept
    assert await journal.program("b") is None
    assert await journal.program("nothing") is None


async def test_a_very_large_program_is_not_kept(journal):
    await journal.open(record(id="a"), None, "#" * 256 * 1024)
    await journal.open(record(id="b"), None, "#" * (256 * 1024 + 1))
    assert [each.program_kept for each in await journal.newest(Filter(), 10)] == [False, True]


async def test_programs_are_forgotten_before_their_executions(journal):
    await journal.open(replace(record(id="old"), accepted_at=100.0), None, "print('walrus')")
    await journal.open(replace(record(id="new"), accepted_at=300.0), None, "print('walrus')")
    await journal.forget_programs_before(200.0)
    assert (await journal.program("old"), await journal.program("new")) == (None, "print('walrus')")
    assert [each.id for each in await journal.newest(Filter(), 10)] == ["new", "old"]
    assert [each.id for each in await journal.newest(Filter(text="walrus"), 10)] == ["new"]


async def test_executions_are_found_by_a_piece_of_text_in_any_case(journal):
    await journal.open(record(id="0123abcd"), None, "rows = Postgres.query('ÄPFEL')")
    await journal.finish(result_of("0123abcd", b"first line\nSecond Line\n"))
    await journal.open(record(id="other"), None, "pass")
    for text in ("postgres.QUERY", "äpfel", "23AB", "second l", "err"):
        assert [each.id for each in await journal.newest(Filter(text=text), 10)] == ["0123abcd"], text
    for text in ("%", "po_tgres", "nowhere", DEVELOPER.key_name):
        assert await journal.newest(Filter(text=text), 10) == [], text


async def test_a_time_may_have_two_ends(journal):
    for number in range(5):
        await journal.open(replace(record(id=str(number)), accepted_at=float(number)))
    wanted = Filter(since=1.0, until=4.0)
    assert [each.id for each in await journal.newest(wanted, 10)] == ["3", "2", "1"]
    assert [each.id for each in await journal.newest(wanted, 2)] == ["3", "2"]


async def test_a_refusal_is_found_by_its_reason(journal):
    await journal.open(refused("r", detail="4 executions are running."))
    assert [each.id for each in await journal.newest(Filter(text="are running"), 10)] == ["r"]


async def test_lists_tell_how_many_calls_there_were(journal):
    await journal.open(record(id="a"))
    names = ("one", "two", "one", "three", "four", "five")
    await journal.record_calls([CallRecord("a", number, tool_call(tool=name)) for number, name in enumerate(names)])
    (told,) = await journal.newest(Filter(), 10)
    assert (told.call_count, told.tool_calls) == (6, ())
    assert told.called == ("postgres/one", "postgres/two", "postgres/three", "postgres/four")
