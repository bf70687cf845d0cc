"""The made-up week of executions has the sizes that it promises, and what the questions look for."""

from __future__ import annotations

from statistics import mean
from urllib.parse import parse_qsl, urlsplit

import pytest

from bench.history import MOST_CALLS, OUTPUT_BYTES, REFUSAL, SINGLE_CALL, WEEK_SECONDS, executions, fill_journal
from bench.lists import list_questions, stats_questions
from orchestrator.domain.execution import Filter, Kind, State
from orchestrator.faces.http.executions import ExecutionsQuery
from orchestrator.faces.http.stats import StatsQuery
from orchestrator.journals.sqlite import SqliteJournal

COUNT = 1000
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def week():
    return list(executions(COUNT, NOW))


@pytest.fixture(scope="module")
async def journal(tmp_path_factory):
    file = tmp_path_factory.mktemp("journal") / "journal.sqlite3"
    await fill_journal(file, COUNT, NOW)
    journal = SqliteJournal(file, max_executions=COUNT)
    yield journal
    await journal.close()


def test_programs_and_output_have_the_sizes_of_real_ones(week):
    programs = [each for each in week if each.program]
    assert 900 < mean(len(each.program) for each in programs) < 1100
    assert {len(each.result.stdout) for each in programs} <= set(range(OUTPUT_BYTES[0], OUTPUT_BYTES[1] + 1))
    assert all(each.result.record.stdout_bytes == len(each.result.stdout) for each in programs)


def test_tools_are_called_up_to_twelve_times_on_eight_servers(week):
    called = [each.result.record.tool_calls for each in week if each.program]
    assert {len(calls) for calls in called} == set(range(MOST_CALLS + 1))
    assert len({call.server for calls in called for call in calls}) == 8


def test_three_callers_are_spread_over_the_week_oldest_first(week):
    moments = [each.begun.accepted_at for each in week]
    assert moments == sorted(moments)
    assert (moments[0], moments[-1]) == (NOW - WEEK_SECONDS, pytest.approx(NOW, abs=2 * WEEK_SECONDS / COUNT))
    assert len({each.begun.caller for each in week}) == 3


def test_single_calls_have_no_program_and_refusals_no_end(week):
    calls = [each for each in week if each.begun.kind is Kind.CALL]
    refused = [each for each in week if each.begun.state is State.REFUSED]
    assert (len(calls), len(refused)) == (COUNT // SINGLE_CALL, COUNT // REFUSAL)
    assert all(each.program is None and len(each.result.record.tool_calls) == 1 for each in calls)
    assert all(each.program is None and each.result is None for each in refused)


def test_every_run_measures_the_same_week(week):
    assert list(executions(COUNT, NOW)) == week


async def test_the_journal_holds_the_whole_week(journal, week):
    held = await journal.newest(Filter(), 2 * COUNT)
    assert [record.id for record in held] == [each.begun.id for each in reversed(week)]


@pytest.mark.parametrize("question", list_questions(NOW), ids=lambda question: question.name)
async def test_every_list_finds_what_its_question_says(journal, question):
    query = ExecutionsQuery(**dict(parse_qsl(urlsplit(question.path).query)))
    assert len(await journal.newest(query.as_filter(), query.limit)) in question.finds


@pytest.mark.parametrize("question", stats_questions(NOW), ids=lambda question: question.name)
async def test_every_span_has_something_to_count(journal, question):
    span = StatsQuery(**dict(parse_qsl(urlsplit(question.path).query))).as_span()
    assert (await journal.statistics(span)).executions in question.finds
