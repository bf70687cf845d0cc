"""What the page of figures computes from what the daemon counted."""

from __future__ import annotations

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

MODULE = "pages/figures_of.js"


def test_an_unknown_range_is_a_day() -> None:
    assert ask(MODULE, "['1h', '7d', 'x', null].map((each) => module.rangeOf(each).seconds)") == [
        3600,
        604800,
        86400,
        86400,
    ]
    assert ask(MODULE, "module.sinceOf(module.rangeOf('1h'), Date.UTC(2026, 0, 1))") == "2025-12-31T23:00:00.000Z"


@pytest.mark.parametrize(
    ("part", "whole", "width"),
    [(0, 10, "0%"), (1, 0, "0%"), (1, 10_000, "0.60%"), (5, 10, "50.00%"), (20, 10, "100.00%")],
)
def test_what_is_not_nothing_can_be_seen_in_a_bar(part: int, whole: int, width: str) -> None:
    assert ask(MODULE, "module.share(part, whole)", part=part, whole=whole) == width


def test_outcomes_begin_with_the_good_one_and_leave_out_what_did_not_occur() -> None:
    outcomes = {"failed": 7, "timed_out": 9, "completed": 3, "rejected": 0}
    found = ask(MODULE, "module.outcomesOf(outcomes).map((each) => each.outcome)", outcomes=outcomes)
    assert found == ["completed", "timed_out", "failed"]


def test_cancelled_executions_did_not_go_wrong() -> None:
    outcomes = {"completed": 3, "cancelled": 2, "failed": 4, "out_of_memory": 1}
    assert ask(MODULE, "module.wrongOf(outcomes)", outcomes=outcomes) == 5


def test_a_bucket_without_a_value_is_a_hole_in_the_line() -> None:
    series = [{"at": "2026-01-01T00:00:00Z", "p50Ms": 4}, {"at": "2026-01-01T00:01:00Z", "p50Ms": None}]
    assert ask(MODULE, "module.columnsOf(series, ['p50Ms'])", series=series) == [[1767225600, 1767225660], [4, None]]


def test_a_line_is_told_in_words_too() -> None:
    assert ask(MODULE, "module.inWords('all', [3, null, 9, 4], String)") == "all: from 3 to 9, last 4."
    assert ask(MODULE, "module.inWords('all', [null], String)") == "all: nothing."


@pytest.mark.parametrize(("seconds", "told"), [(60, "60 s"), (1440, "24 min"), (10080, "2.8 h"), (7200, "2 h")])
def test_the_length_of_a_bucket_is_told_in_its_unit(seconds: int, told: str) -> None:
    assert ask(MODULE, "module.lasting(seconds)", seconds=seconds) == told


def test_the_slowest_tools_come_first() -> None:
    tools = [{"tool": "a", "p95Ms": 3}, {"tool": "b", "p95Ms": None}, {"tool": "c", "p95Ms": 9}]
    assert ask(MODULE, "module.slowestTools(tools, 2).map((each) => each.tool)", tools=tools) == ["c", "a"]


def test_a_value_without_neighbours_is_found() -> None:
    assert ask(MODULE, "module.aloneIn([1, null, 2, 3, null, null, 4])") == [0, 6]


def test_a_loss_is_not_called_nothing() -> None:
    counted = {"definitions": {"full": 20, "here": 50}, "results": {"returned": 100, "printed": 400, "saved": 10}}
    saved = ask(MODULE, "module.savedOf(counted)", counted=counted)
    assert saved == {"definitions": -30, "results": 10, "all": -20}


@pytest.mark.parametrize(("range", "told"), [("1h", "in the last hour"), ("7d", "in the last 7 days")])
def test_a_range_is_told_in_a_sentence(range: str, told: str) -> None:
    assert ask(MODULE, "module.during(module.rangeOf(id))", id=range) == told
