"""Which executions fit, without asking the daemon."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

NOW = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def execution(**changes: Any) -> dict[str, Any]:
    return {
        "executionId": "e1",
        "state": "finished",
        "outcome": "failed",
        "caller": "agent",
        "language": "python",
        "acceptedAt": "2023-11-14T22:00:00.000+00:00",
        **changes,
    }


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ({}, True),
        ({"outcome": "failed", "language": "python"}, True),
        ({"outcome": "completed"}, False),
        ({"caller": "somebody"}, False),
        ({"range": "15m"}, True),
        ({"since": "2023-11-14T22:05:00Z", "range": "custom"}, False),
        ({"until": "2023-11-14T22:00:00Z", "range": "custom"}, False),
        ({"text": "needle"}, None),
        ({"tool": "postgres"}, None),
        ({"tool": "postgres", "outcome": "completed"}, False),
    ],
)
def test_filters_are_applied_where_they_can_be(filters: dict[str, str], fits: bool | None) -> None:
    answer = ask(
        "lib/filters.js", "module.fits(execution, filters, now)", execution=execution(), filters=filters, now=NOW
    )
    assert answer is fits


def test_range_counts_from_now() -> None:
    params = ask("lib/filters.js", "module.asParams({range: '1h', outcome: 'failed'}, now)", now=NOW)
    assert params == {"outcome": "failed", "since": "2023-11-14T21:13:20.000Z"}


def test_what_has_ended_does_not_run_again() -> None:
    ended, running = execution(), execution(state="running", outcome=None)
    assert ask("lib/filters.js", "module.later(ended, running)", ended=ended, running=running) == ended
    assert ask("lib/filters.js", "module.later(running, ended)", ended=ended, running=running) == ended


def test_pace_counts_the_last_minute_and_the_median_of_five() -> None:
    executions = [
        execution(acceptedAt=NOW - 10_000, finishedAt=NOW - 9_000, executionTime=30),
        execution(acceptedAt=NOW - 90_000, finishedAt=NOW - 80_000, executionTime=10),
        execution(acceptedAt=NOW - 900_000, finishedAt=NOW - 800_000, executionTime=900),
        execution(acceptedAt=NOW - 1_000, finishedAt=None, executionTime=None),
    ]
    for each in executions:
        each["acceptedAt"] = _iso(each["acceptedAt"])
        each["finishedAt"] = each["finishedAt"] and _iso(each["finishedAt"])
    assert ask("lib/filters.js", "module.pace(executions, now)", executions=executions, now=NOW) == {
        "perMinute": 2,
        "medianMs": 10,
    }


def _iso(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def test_times_are_kept_in_utc_and_shown_in_the_readers_zone() -> None:
    kept, shown = ask(
        "lib/filters.js", "[module.toUtc(local), module.toLocal(module.toUtc(local))]", local="2023-11-14T22:13"
    )
    assert kept.endswith(":00Z")
    assert shown == "2023-11-14T22:13"
    assert ask("lib/filters.js", "[module.toUtc(''), module.toLocal(undefined), module.toLocal('soon')]") == [
        "",
        "",
        "",
    ]


def test_an_end_before_its_begin_is_noticed() -> None:
    times = {"since": "2023-11-14T22:00:00Z", "until": "2023-11-14T21:00:00Z"}
    assert ask("lib/filters.js", "module.isTurnedAround(times)", times=times) is True
    assert ask("lib/filters.js", "module.isTurnedAround({since: times.since})", times=times) is False


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", None),
        ("crm", None),
        ("crm/find_customers", None),
        ("find", ["crm/find_customers"]),
        ("mail/Find", ["crm/find_customers"]),
        ("nothing", []),
    ],
)
def test_an_unknown_tool_gets_suggestions(text: str, meant: list[str] | None) -> None:
    known = ["crm", "mail", "crm/find_customers", "mail/send"]
    assert ask("lib/filters.js", "module.suggestions(text, known)", text=text, known=known) == meant
