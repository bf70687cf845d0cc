"""How lists are measured, shown and judged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench import results
from bench.lists import PAGE, REMEMBERED, WHOLE_PAGE, Question, ask
from bench.paths import RESULTS
from bench.plan import QUICK
from bench.results import Answer, Lists, Machine, Results, Summary
from bench.tables import report, speed_section
from bench.targets import NOT_MEASURED, judged

PLAN = replace(QUICK, warm_up_rounds=2, rounds=3)
MACHINE = Machine(
    date="2026-11-16",
    processor="a processor",
    cores=2,
    memory_gb=24,
    system="a system",
    kernel="6",
    engine="Docker",
    runner_node="v24",
    python="3.11",
    cpu_source="/proc/stat",
)
NEWEST = Question("the newest", "/executions?limit=50", WHOLE_PAGE)
FIGURES = Question("stats of 1 h", "/stats", range(1, 100))


class AnsweringDaemon:
    def __init__(self, listed=PAGE):
        self.asked = []
        self._bodies = {NEWEST.path: {"executions": [{}] * listed}, FIGURES.path: {"executions": 60}}

    def get(self, path):
        self.asked.append(path)
        return json.dumps(self._bodies[path])


def answer(question, ms, slowest_ms):
    return Answer(
        question=question, found=50, wall=Summary(n=30, p50_ms=ms, p95_ms=ms, p99_ms=ms), slowest_ms=slowest_ms
    )


def measured(*answers, executions=REMEMBERED):
    lists = Lists(executions=executions, lists=list(answers), stats=[answer("stats of 7 d", 400, 500)])
    return Results(machine=MACHINE, quick=False, seconds=1, lists=lists)


def lists_targets(found):
    return judged(found)[-2:]


def test_every_question_is_asked_in_each_round_and_warming_up_does_not_count():
    daemon = AnsweringDaemon()
    answers = ask(daemon, [NEWEST, FIGURES], PLAN)
    assert [(one.question, one.found, one.wall.n) for one in answers] == [
        ("the newest", 50, 3),
        ("stats of 1 h", 60, 3),
    ]
    assert sorted(daemon.asked) == sorted([NEWEST.path, FIGURES.path] * 5)


def test_the_slowest_answer_is_no_faster_than_the_median():
    for one in ask(AnsweringDaemon(), [NEWEST, FIGURES], PLAN):
        assert one.slowest_ms >= one.wall.p50_ms > 0


def test_an_answer_that_lacks_executions_is_not_measured():
    with pytest.raises(RuntimeError, match="found 49 executions"):
        ask(AnsweringDaemon(listed=49), [NEWEST], PLAN)


def test_the_slowest_filter_and_the_slowest_answer_are_judged_and_figures_are_not():
    by_filter, of_all = lists_targets(measured(answer("the newest", 9, 130), answer("text that is nowhere", 62, 70)))
    assert (by_filter.measured, by_filter.met, by_filter.n) == ("62 ms", True, 30)
    assert by_filter.detail == "text that is nowhere; plain 9.0 ms"
    assert (of_all.measured, of_all.met, of_all.n, of_all.detail) == ("130 ms", False, 60, "the newest")


def test_a_smaller_journal_shows_neither_yes_nor_no():
    assert [one.met for one in lists_targets(measured(answer("the newest", 9, 10), executions=500))] == [None, None]


def test_lists_that_were_not_measured_are_told_as_such():
    nothing = Results(machine=MACHINE, quick=False, seconds=1)
    assert [one.measured for one in lists_targets(nothing)] == [NOT_MEASURED] * 2


def test_the_report_and_the_page_show_every_question():
    found = measured(answer("the newest", 9, 130), answer("text that is nowhere", 62, 70))
    for text in (report(found), speed_section(found, "chart.svg")):
        assert "Lists of 50 and figures, out of 10,000 executions" in text
        assert "| the newest | 50 | 9.00 | 130 | 30 |" in text
        assert "| text that is nowhere | 50 | 62.0 | 70.0 | 30 |" in text
        assert "| stats of 7 d | 50 | 400 | 500 | 30 |" in text


def test_a_page_without_lists_has_no_table_of_them():
    assert "Lists of" not in speed_section(Results(machine=MACHINE, quick=False, seconds=1), "chart.svg")


def test_results_are_read_as_they_were_written(tmp_path):
    found = measured(answer("the newest", 9, 130))
    results.write(found, tmp_path / "result.json")
    assert results.read(tmp_path / "result.json") == found


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_results_from_before_lists_were_measured_are_still_read(file):
    assert results.read(file).machine.date
