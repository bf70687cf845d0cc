from __future__ import annotations

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.faces.mcp.excerpts import Room
from orchestrator.faces.mcp.ledger_lines import busy_ms, ledger_lines

COUNTER = O200kTokenCounter()


def call(
    outcome: CallOutcome = CallOutcome.DONE,
    detail: str | None = None,
    *,
    tool: str = "execute_sql",
    started: float = 0,
    duration: float = 100,
) -> ToolCall:
    return ToolCall("postgres", tool, outcome, started, duration, 5, 10, detail)


def lines(*calls: ToolCall, tokens: int = 1000, told: str = "") -> list[str]:
    return ledger_lines(calls, Room(COUNTER, tokens), told)


def test_calls_of_one_tool_are_one_line():
    calls = [call(started=number * 10, duration=2710) for number in range(40)]
    assert lines(*calls) == ["postgres/execute_sql ×40, all done, 3.1 s"]


def test_a_single_call_is_not_counted():
    assert lines(call()) == ["postgres/execute_sql, done, 0.1 s"]


def test_tools_stand_in_the_order_of_their_first_calls():
    assert lines(call(tool="b"), call(tool="a"), call(tool="b")) == [
        "postgres/b ×2, all done, 0.1 s",
        "postgres/a, done, 0.1 s",
    ]


def test_failures_are_named_with_their_detail_once_per_kind():
    no_table = call(CallOutcome.TOOL_ERROR, 'relation "x"\ndoes not exist')
    down = call(CallOutcome.UNAVAILABLE, "The server is down.")
    assert lines(call(), no_table, no_table, down) == [
        'postgres/execute_sql ×4, 1 done, 2 tool_error (relation "x" does not exist), '
        "1 unavailable (The server is down.), 0.1 s"
    ]


def test_of_different_details_of_a_kind_the_first_is_told():
    failed = [call(CallOutcome.TOOL_ERROR, f"row {number} is locked") for number in range(3)]
    assert lines(*failed) == ["postgres/execute_sql ×3, all tool_error (first: row 0 is locked), 0.1 s"]


def test_a_detail_that_is_told_already_is_not_repeated():
    failed = call(CallOutcome.TOOL_ERROR, "too bad")
    assert lines(failed, told="ToolError: too bad\n") == ["postgres/execute_sql, tool_error, 0.1 s"]


def test_a_long_detail_is_cut():
    (line,) = lines(call(CallOutcome.TOOL_ERROR, "x" * 500))
    assert len(line) < 300


def test_what_there_is_no_room_for_is_counted():
    calls = [call(tool=f"tool_{number}") for number in range(100)]
    told = lines(*calls, tokens=100)
    assert 3 < len(told) < 12
    assert told[-1] == f"… and {100 - len(told) + 1} more tool calls"


def test_time_in_which_several_calls_were_under_way_counts_once():
    assert busy_ms([call(started=0), call(started=50), call(started=60, duration=10), call(started=500)]) == 250
