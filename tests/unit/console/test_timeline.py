"""Bars of tool calls: lanes show what ran at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes


def call(number: int, started: float, duration: float, outcome: str = "done") -> dict[str, Any]:
    return {
        "number": number,
        "server": "s",
        "tool": "t",
        "outcome": outcome,
        "startedMs": started,
        "durationMs": duration,
    }


def laid_out(calls: list[dict[str, Any]], **state: Any) -> dict[str, Any]:
    answer: dict[str, Any] = ask("lib/timeline.js", "module.layout(calls, state)", calls=calls, state=state)
    return answer


def test_calls_one_after_another_share_a_lane() -> None:
    plan = laid_out([call(0, 0, 5), call(1, 5, 5), call(2, 20, 5)])
    assert [bar["lane"] for bar in plan["bars"]] == [0, 0, 0]
    assert (plan["lanes"], plan["endMs"]) == (1, 25)


def test_fifty_parallel_calls_have_fifty_lanes() -> None:
    plan = laid_out([call(number, number / 10, 100) for number in range(50)])
    assert sorted(bar["lane"] for bar in plan["bars"]) == list(range(50))


def test_lane_is_used_again_once_it_is_free() -> None:
    plan = laid_out([call(0, 0, 10), call(1, 1, 2), call(2, 4, 2)])
    assert [bar["lane"] for bar in plan["bars"]] == [0, 1, 1]


def test_call_under_way_grows_and_keeps_its_lane() -> None:
    plan = laid_out([call(0, 0, 0, "in_flight"), call(1, 40, 5)], running=True, nowMs=50)
    assert [(bar["lane"], bar["endMs"]) for bar in plan["bars"]] == [(0, 50), (1, 45)]


def test_call_that_was_cut_off_no_longer_grows() -> None:
    plan = laid_out([call(0, 10, 5, "in_flight")], running=False, nowMs=1000)
    assert plan["bars"][0]["endMs"] == 15


def test_no_calls_need_no_lane() -> None:
    assert laid_out([]) == {"bars": [], "lanes": 0, "endMs": 0}


@pytest.mark.parametrize(
    ("end", "most", "ticks"),
    [(0, 5, [0]), (100, 5, [0, 20, 40, 60, 80, 100]), (7, 4, [0, 2, 4, 6]), (0.9, 3, [0, 0.5])],
)
def test_ticks_are_round_numbers(end: float, most: int, ticks: list[float]) -> None:
    assert ask("lib/timeline.js", "module.ticks(end, most)", end=end, most=most) == ticks


def test_five_hundred_calls_in_a_lane_are_widened() -> None:
    zooms = ask(
        "lib/timeline.js",
        "[3, 500, 100000].map((number) => module.bestZoom(Array.from({length: number}, () => ({lane: 0})), 900))",
    )
    assert zooms == [1, 4, 16]


@pytest.mark.parametrize("width", [300, 900])
@pytest.mark.parametrize("apart", [5, 100, 6000])
def test_bursts_of_fast_calls_are_not_drawn_on_each_other(apart: int, width: int) -> None:
    calls = [call(number, number // 50 * apart + number % 50 * 0.7, 0.7) for number in range(500)]
    bars = ask(
        "lib/timeline.js",
        "(() => { const {bars: plain, endMs} = module.layout(calls);"
        " const plot = width * module.bestZoom(plain, width);"
        " const {bars} = module.layout(calls, {leastMs: module.leastMsOf(endMs, plot)});"
        " const x = (at) => (at / endMs) * plot; return bars.map(({lane, startedMs, endMs: end}) =>"
        " [lane, x(startedMs), x(startedMs) + Math.max(module.NARROWEST, x(end) - x(startedMs) - 1)]); })()",
        calls=calls,
        width=width,
    )
    bars.sort()
    pairs = list(pairwise(bars))
    assert [(one, other) for one, other in pairs if one[0] == other[0] and one[2] > other[1] + 1e-6] == []
    assert max(bar[0] for bar in bars) < 150


def test_calls_that_took_no_time_at_all_have_a_lane_each() -> None:
    lanes = ask(
        "lib/timeline.js",
        "module.layout(calls, {leastMs: module.leastMsOf(0, 800)}).bars.map(({lane}) => lane)",
        calls=[call(number, 0, 0) for number in range(3)],
    )
    assert lanes == [0, 1, 2]


def test_arrow_keys_lead_to_the_nearest_call() -> None:
    calls = [call(0, 0, 10), call(1, 2, 2), call(2, 5, 2), call(3, 20, 2)]
    numbers = ask(
        "lib/timeline.js",
        "(() => { const {bars} = module.layout(calls);"
        " const at = (number) => bars.find((bar) => bar.number === number);"
        " return keys.map(([number, key]) => module.neighbour(bars, at(number), key)?.number ?? null); })()",
        calls=calls,
        keys=[[0, "ArrowRight"], [0, "ArrowLeft"], [0, "ArrowDown"], [2, "ArrowUp"], [1, "End"], [3, "Home"]],
    )
    assert numbers == [1, None, 2, 0, 3, 0]


def test_time_in_calls_counts_once_what_ran_at_once() -> None:
    calls = [call(0, 0, 10), call(1, 5, 10), call(2, 30, 5)]
    assert ask("lib/timeline.js", "module.summary(module.layout(calls).bars)", calls=calls) == {"busyMs": 20, "most": 2}
