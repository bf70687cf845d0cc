"""What ran, for people: the list of executions and one of them, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Json = dict[str, Any]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_COLOURS = {"completed": "green", "failed": "yellow", "cancelled": "dim"}


class NotATime(ValueError):
    """The message says what a time must look like."""


def moment(text: str) -> str:
    """Turn `90s`, `15m`, `2h` or `7d` ago, or an ISO 8601 time, into the form that the API takes."""
    if found := re.fullmatch(r"(\d{1,6})([smhd])", text):
        return (datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})).isoformat()
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()  # without an offset it is local time
    except (ValueError, OverflowError):
        raise NotATime(f"{text!r} must be an age like 15m, 2h or 7d, or a time like 2026-11-16T09:30.") from None


def print_list(out: Console, executions: list[Json]) -> None:
    table = Table("Accepted", "Execution", "Outcome", "Language", "Time", "Output", "Caller", box=None, pad_edge=False)
    for execution in executions:
        took = execution["executionTime"]
        table.add_row(
            _local(execution["acceptedAt"]),
            execution["executionId"],
            _outcome(execution),
            execution["language"] or ("tool call" if execution["kind"] == "call" else ""),
            f"{took} ms" if took is not None else "",
            f"{execution['outputBytes']} B",
            escape(execution["caller"]),
        )
    out.print(table)


def print_one(out: Console, execution: Json) -> None:
    """Print what is known of an execution, then its tool calls and what it printed."""
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _facts(execution):
        facts.add_row(f"[dim]{name}[/]", value)
    out.print(facts)
    if calls := execution["toolCalls"]:
        table = Table("Tool call", "Outcome", "Began", "Took", "Sent", "Got", "Detail", box=None, pad_edge=False)
        for call in calls:
            table.add_row(
                escape(f"{call['server']}/{call['tool']}"),
                call["outcome"],
                f"{call['startedMs']:.0f} ms",
                f"{call['durationMs']:.0f} ms",
                f"{call['requestBytes']} B",
                f"{call['resultBytes']} B",
                escape(call["detail"] or ""),
            )
        out.print()
        out.print(table)
    for name, shown in (("stdout", execution["output"]), ("stderr", execution["stderr"])):
        if shown:
            out.print(f"\n[dim]{name}[/]")
            out.print(escape(shown.removesuffix("\n")), highlight=False)


def _facts(execution: Json) -> Iterator[tuple[str, str]]:
    yield "execution", execution["executionId"]
    yield "outcome", _outcome(execution)
    if execution["exitCode"] is not None:
        yield "exit code", str(execution["exitCode"])
    if execution["error"]:
        yield "error", escape(f"{execution['error']['detail']} ({execution['error']['code']})")
    yield "caller", escape(f"{execution['caller']} ({execution['role']})")
    if execution["language"]:
        yield "program", f"{execution['language']}, {execution['codeBytes']} bytes"
    yield "accepted", _local(execution["acceptedAt"])
    if execution["executionTime"] is not None:
        metrics = execution["metrics"]
        phases = f"queue {metrics['queueMs']:.0f}, start {metrics['startMs']:.0f}, run {metrics['runMs']:.0f}"
        yield "time", f"{execution['executionTime']} ms ({phases}; {metrics['cpuMs']:.0f} ms of CPU)"


def _outcome(execution: Json) -> str:
    word = execution["outcome"] or execution["state"]
    if execution["state"] == "interrupted":
        word = "interrupted"
    return f"[{_COLOURS.get(word, 'red')}]{word}[/]"


def _local(iso: str) -> str:
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")
