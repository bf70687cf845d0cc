"""What ran, for people: the list of executions and one of them, as tables.

Whatever a program printed is shown, never obeyed: a control character becomes its visible picture, in a pipe as on a
terminal, so that what one reviews does not depend on where it goes. The exact text is in --json.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.commands.client import ApiClient
from orchestrator.commands.feed import coloured, word_of
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_NOT_THERE,
    AsJson,
    Json,
    ask_daemon,
    call_daemon,
    err,
    fail,
    out,
    plain,
    print_json,
    print_table,
)
from orchestrator.domain.chat import printable
from orchestrator.domain.execution import Kind, Language, Outcome, State
from orchestrator.domain.file_words import size_in_words

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

ExecutionId = Annotated[str | None, typer.Argument(metavar="ID", help="Your own newest program, if absent.")]


class NotATime(ValueError):
    """The message says what a time must look like."""


def executions(
    outcome: Annotated[Outcome | None, typer.Option(help="Only executions with this outcome.")] = None,
    state: Annotated[State | None, typer.Option(help="Only executions in this state.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only programs, or only single tool calls.")] = None,
    caller: Annotated[str | None, typer.Option(help="Only executions of the key with this name.")] = None,
    language: Annotated[Language | None, typer.Option(help="Only programs in this language.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those that called SERVER/TOOL, or a tool of SERVER.")] = None,
    since: Annotated[str | None, typer.Option(help="At or after: 15m, 2h or 7d ago, or a time.")] = None,
    until: Annotated[str | None, typer.Option(help="Before: 15m, 2h or 7d ago, or a time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List what ran, newest first: your own, or everybody's if your role sees all."""
    try:
        times = {name: moment(text) for name, text in (("since", since), ("until", until)) if text}
    except NotATime as error:
        fail(str(error), EXIT_BAD_USE)
    chosen = {"outcome": outcome, "state": state, "kind": kind, "caller": caller, "language": language, "tool": tool}
    chosen |= {**times, "limit": str(limit)}
    found = ask_daemon("/executions", [(name, str(value)) for name, value in chosen.items() if value is not None])
    if as_json:
        print_json(found)
    elif found["executions"]:
        print_list(out, found["executions"])
        if found["next"] is not None:
            err.print(f"These are the newest {limit}; --limit shows more.")
    else:
        err.print("No execution matches.")


def show(execution_id: ExecutionId = None, as_json: AsJson = False) -> None:
    """Show one execution: how it ended, its tool calls and what it printed."""
    found = ask_daemon(f"/executions/{quote(execution_id or newest_program(), safe='')}")
    if as_json:
        print_json(found)
    else:
        print_one(out, found)


def newest_program() -> str:
    """Return the id of the newest program of this key, also where its role sees those of others."""

    async def ask(client: ApiClient) -> list[Json]:
        own = str((await client.get("/whoami"))["caller"])
        found = await client.get("/executions", [("limit", "1"), ("kind", "program"), ("caller", own)])
        newest: list[Json] = found["executions"]
        return newest

    newest = call_daemon(ask)
    if not newest:
        fail("You have run nothing yet.", EXIT_NOT_THERE)
    return str(newest[0]["executionId"])


def moment(text: str) -> str:
    """Turn `90s`, `15m`, `2h` or `7d` ago, or an ISO 8601 time, into the form that the API takes."""
    try:
        if found := re.fullmatch(r"([0-9]{1,6})([smhd])", text):
            return (datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})).isoformat()
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()  # without an offset it is local time
    except (ValueError, OverflowError):
        raise NotATime(f"{text!r} must be an age like 15m, 2h or 7d, or a time like 2026-11-16T09:30.") from None


def print_list(console: Console, executions: list[Json]) -> None:
    table = Table("Accepted", "Execution", "Outcome", "Language", "Time", "Output", "Caller", box=None, pad_edge=False)
    for execution in executions:
        took = execution["executionTime"]
        table.add_row(
            local_time(execution["acceptedAt"]),
            plain(execution["executionId"]),
            coloured(word_of(execution)),
            plain(execution["language"] or ("tool call" if execution["kind"] == "call" else "")),
            f"{took} ms" if took is not None else "",
            f"{execution['outputBytes']} B" if execution["state"] == "finished" else "",
            plain(execution["caller"]),
        )
    print_table(console, table)


def print_one(console: Console, execution: Json) -> None:
    """Print what is known of an execution, then its tool calls and what it printed."""
    facts = Table("", "", box=None, show_header=False, pad_edge=False)

    def tell(name: str, value: str | Text) -> None:
        facts.add_row(Text(name, "dim"), value if isinstance(value, Text) else plain(value))

    tell("execution", execution["executionId"])
    tell("outcome", coloured(word_of(execution)))
    if execution["exitCode"] is not None:
        tell("exit code", str(execution["exitCode"]))
    if error := execution["error"]:
        tell("error", f"{error['detail']} ({error['code']})")
    tell("caller", f"{execution['caller']} ({execution['role']})")
    if execution["language"]:
        tell("program", f"{execution['language']}, {execution['codeBytes']} bytes")
    if execution.get("skill"):
        name, _, version = execution["skill"].partition("@")
        tell("skill", f"{name}, version {version[:12]}" if version else f"{name}, a run of its proof")
    tell("accepted", local_time(execution["acceptedAt"]))
    if execution["executionTime"] is not None:
        metrics = execution["metrics"]
        phases = f"queue {metrics['queueMs']:.0f}, start {metrics['startMs']:.0f}, run {metrics['runMs']:.0f}"
        tell("time", f"{execution['executionTime']} ms ({phases}; {metrics['cpuMs']:.0f} ms of CPU)")
    if workspace := execution.get("workspace"):
        kept = "changed" if workspace["kept"] else f"not changed: {workspace['whyNot']}"
        tell("workspace", f"{workspace['name']}, {kept}")
    print_table(console, facts)
    if execution["toolCalls"]:
        console.print()
        print_table(console, _calls(execution["toolCalls"]))
    if files := execution.get("files"):
        console.print(Text("\nfiles", "dim"))
        for file in files:
            console.print(plain(f"{file['name']}, {size_in_words(file['bytes'])}"))
    for name, printed in (("stdout", execution["output"]), ("stderr", execution["stderr"])):
        if printed:
            console.print(Text(f"\n{name}", "dim"))
            console.file.write(printable(printed).removesuffix("\n") + "\n")  # rich would turn tabs into spaces


def _calls(calls: list[Json]) -> Table:
    table = Table("Tool call", "Outcome", "Began", "Took", "Sent", "Got", "Detail", box=None, pad_edge=False)
    for call in calls:
        table.add_row(
            plain(f"{call['server']}/{call['tool']}"),
            plain(call["outcome"]),
            f"{call['startedMs']:.0f} ms",
            f"{call['durationMs']:.0f} ms",
            f"{call['requestBytes']} B",
            f"{call['resultBytes']} B",
            plain(call["detail"] or ""),
        )
    return table


def local_time(iso: str) -> str:
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")
