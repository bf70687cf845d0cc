"""`code-executor watch` on a daemon that tells what it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.feeding_daemon import (
    CALL,
    CALLED,
    COMPLETED,
    ID,
    LOAD,
    OTHER_ID,
    RUNNING,
    SERVER,
    FeedingDaemon,
    event,
    feeding,
)

FIRST = event(1, "load", LOAD) + event(1, "server", SERVER)
DOWN = {**SERVER, "state": "down", "tools": 0, "problem": "It does not answer."}
NOT_READY = {**LOAD, "ready": False, "problem": "The engine does not answer."}
FAILED = {**COMPLETED, "executionId": OTHER_ID, "outcome": "failed", "caller": "bob"}
REFUSED = {**RUNNING, "state": "refused", "error": {"code": "queue_full", "detail": "Too many wait."}}
DENIED = {**CALLED, "number": 1, "outcome": "denied", "detail": "Your role may not call it."}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedingDaemon]:
    with feeding(monkeypatch) as fake:
        yield fake


def facts(daemon: FeedingDaemon, *arguments: str) -> list[str]:
    """Return the lines without the time that each begins with."""
    ended = daemon.run("watch", *arguments)
    assert ended.exit_code == 77, ended.output  # the end of what the daemon has to tell
    return [line[10:] for line in ended.stdout.splitlines()]


def test_each_fact_is_a_line_and_the_columns_are_aligned(daemon: FeedingDaemon) -> None:
    daemon.streams = [
        FIRST
        + event(2, "execution", RUNNING)
        + event(3, "tool_call", CALL)
        + event(4, "tool_call", CALLED)
        + event(5, "heartbeat", {})
        + event(6, "execution", COMPLETED)
        + event(7, "server", DOWN)
    ]
    assert facts(daemon) == [
        "load       ready          1 running, 0 waiting, 4 of 5 sandboxes warm",
        "server     connected      postgres  5 tools",
        f"execution  running        {ID}  python      alice",
        f"tool_call  in_flight      {ID}  #1          postgres/execute_sql",
        f"tool_call  done           {ID}  #1          postgres/execute_sql  25 ms  64 bytes sent, 2 KiB received",
        f"execution  completed      {ID}  python      alice  1213 ms  2 tool calls",
        "server     down           postgres  0 tools  It does not answer.",
    ]


def test_an_execution_that_has_ended_is_told_with_the_time_of_its_end(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(1, "execution", COMPLETED)]
    assert daemon.run("watch").stdout.startswith("09:30:01  execution  completed")


def test_why_an_execution_was_refused_is_told(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(1, "execution", REFUSED)]
    assert facts(daemon)[0].endswith("alice  0 tool calls  Too many wait. (queue_full)")


def test_what_servers_and_programs_say_is_shown_in_its_line_and_never_obeyed(daemon: FeedingDaemon) -> None:
    hostile = "[red]a[/red] \x1b[2J\x07\r\nexecution  completed\u2028\x85\tb \x9b31m"
    daemon.streams = [
        event(1, "server", {**DOWN, "problem": hostile}) + event(2, "tool_call", {**CALL, "tool": "x\ny"})
    ]
    assert facts(daemon) == [
        "server     down           postgres  0 tools  [red]a[/red] ␛[2J␇ execution  completed b \ufffd31m",
        f"tool_call  in_flight      {ID}  #1          postgres/x y",
    ]


def test_json_has_a_line_for_each_fact_with_its_name_and_id(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(1, "execution", {**RUNNING, "caller": "\x9bé"}) + event(2, "gap", {})]
    lines = daemon.run("watch", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"name": "execution", "id": "a-1", "data": {**RUNNING, "caller": "\x9bé"}},
        {"name": "gap", "id": "a-2", "data": {}},
    ]
    assert "".join(lines).isascii()


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        (("--kind", "server"), ["server"]),
        (("--kind", "execution,tool_call"), ["execution", "tool_call"]),
        (("--kind", "load, server"), ["load", "server"]),
        (("--kind", "load", "--kind", "execution"), ["load", "execution"]),
    ],
)
def test_only_the_chosen_kinds_are_told(daemon: FeedingDaemon, arguments: tuple[str, ...], kinds: list[str]) -> None:
    daemon.streams = [FIRST + event(2, "execution", RUNNING) + event(3, "tool_call", CALL)]
    assert [line.split()[0] for line in facts(daemon, *arguments)] == kinds


@pytest.mark.parametrize(("arguments", "told"), [((), 2), (("--kind", "load"), 3)])
def test_each_change_of_the_load_is_told_to_whoever_asks_for_it(
    daemon: FeedingDaemon, arguments: tuple[str, ...], told: int
) -> None:
    daemon.streams = [event(1, "load", LOAD) + event(2, "load", {**LOAD, "running": 2}) + event(3, "load", NOT_READY)]
    lines = facts(daemon, *arguments)
    assert len(lines) == told
    assert lines[-1].endswith("warm  The engine does not answer.")


@pytest.mark.parametrize("kinds", ["", "executions", "execution,", "gap", "load;server"])
def test_a_kind_that_is_none_is_refused_with_those_there_are(daemon: FeedingDaemon, kinds: str) -> None:
    ended = daemon.run("watch", "--kind", kinds)
    assert (ended.exit_code, daemon.asked) == (2, [])
    assert "execution, tool_call, server, load" in " ".join(ended.stderr.replace("│", " ").split())


def test_only_executions_of_a_caller_are_told_with_their_tool_calls(daemon: FeedingDaemon) -> None:
    daemon.executions = [{**RUNNING, "executionId": "before"}]
    daemon.streams = [
        FIRST
        + event(2, "tool_call", {**CALL, "executionId": "before"})
        + event(3, "execution", {**RUNNING, "executionId": OTHER_ID, "caller": "bob"})
        + event(4, "tool_call", {**CALL, "executionId": OTHER_ID})
        + event(5, "execution", RUNNING)
        + event(6, "tool_call", CALL)
        + event(7, "execution", FAILED)
        + event(8, "execution", COMPLETED)
    ]
    told = [line.split()[:3] for line in facts(daemon, "--caller", "alice")]
    assert told == [
        ["tool_call", "in_flight", "before"],
        ["execution", "running", ID],
        ["tool_call", "in_flight", ID],
        ["execution", "completed", ID],
    ]
    assert [path for path in daemon.asked if path.startswith("/executions")] == [
        "/executions?caller=alice&state=queued&limit=500",
        "/executions?caller=alice&state=running&limit=500",
    ]


@pytest.mark.parametrize("kinds", ["server", "execution,load"])
def test_what_has_no_caller_cannot_be_chosen_by_one(daemon: FeedingDaemon, kinds: str) -> None:
    ended = daemon.run("watch", "--caller", "alice", "--kind", kinds)
    assert (ended.exit_code, daemon.asked) == (64, [])
    assert "Only executions and tool calls have a caller" in ended.stderr


def test_errors_are_what_failed_and_nothing_else(daemon: FeedingDaemon) -> None:
    good = [
        *(("load", LOAD), ("server", SERVER), ("server", {**SERVER, "state": "connecting"})),
        *(("execution", RUNNING), ("tool_call", CALL), ("tool_call", CALLED), ("execution", COMPLETED)),
        ("execution", {**COMPLETED, "outcome": "cancelled"}),
    ]
    bad = [
        *(("load", NOT_READY), ("server", DOWN), ("tool_call", DENIED), ("execution", FAILED), ("execution", REFUSED)),
        ("execution", {**COMPLETED, "state": "interrupted", "outcome": "sandbox_error"}),
    ]
    daemon.streams = ["".join(event(number, *told) for number, told in enumerate([*good, *bad]))]
    assert [line.split("  ")[0].strip() for line in facts(daemon, "--errors")] == [name for name, _ in bad]


def test_a_lost_connection_is_taken_up_after_the_last_event_and_nothing_is_told_twice(daemon: FeedingDaemon) -> None:
    daemon.streams = [
        FIRST + event(2, "execution", RUNNING),
        FIRST.replace("a-1", "a-2") + event(3, "execution", COMPLETED),
        event(3, "load", LOAD) + event(3, "server", SERVER),
    ]
    ended = daemon.run("watch")
    words = [line.split()[1:3] for line in ended.stdout.splitlines()]
    assert words == [
        ["load", "ready"],
        ["server", "connected"],
        ["execution", "running"],
        ["execution", "completed"],
    ]
    assert daemon.resumed_after == [None, "a-2", "a-3", "a-3"]
    assert ended.stderr.count("The daemon ended the stream too early. Trying again.") == 3
    assert ended.stderr.count("connected again") == 2


def test_facts_that_were_missed_are_told_whatever_was_chosen(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(7, "gap", {}, epoch="b")]
    assert facts(daemon, "--kind", "server", "--errors") == [
        "gap        missed         some events; 'code-executor executions' lists what ran"
    ]


def test_after_missed_facts_those_of_a_caller_are_read_again(daemon: FeedingDaemon) -> None:
    daemon.executions = [RUNNING]
    daemon.streams = [event(1, "load", LOAD), event(7, "gap", {}) + event(8, "tool_call", CALL)]
    assert [line.split()[0] for line in facts(daemon, "--caller", "alice")] == ["gap", "tool_call"]
    assert len([path for path in daemon.asked if path.startswith("/executions")]) == 4


def test_a_daemon_that_stays_away_is_given_up(daemon: FeedingDaemon) -> None:
    daemon.streams = [FIRST] * 3
    ended = daemon.run("watch")
    assert (ended.exit_code, len(daemon.resumed_after)) == (69, 3)


def test_a_daemon_that_is_not_there_is_told_at_once(daemon: FeedingDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_EXECUTOR_URL", "http://127.0.0.1:1")
    ended = daemon.run("watch")
    assert ended.exit_code == 69
    assert ended.stderr == "code-executor: No daemon answers at http://127.0.0.1:1. Start it with 'make up'.\n"


def process(daemon: FeedingDaemon, *arguments: str) -> subprocess.Popen[str]:
    """Start the command itself, on a daemon that falls silent after its first facts."""
    daemon.streams, daemon.holds_the_last = [FIRST], True
    command = ("env", "--default-signal=INT", sys.executable, "-m", "orchestrator", "watch", *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_ctrl_c_ends_it_without_a_word(daemon: FeedingDaemon, arguments: tuple[str, ...]) -> None:
    with process(daemon, *arguments) as watching:
        assert watching.stdout is not None
        assert "ready" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, stderr = watching.communicate(timeout=20)
    assert (watching.returncode, stderr) == (130, "")


@pytest.mark.processes
def test_it_ends_when_nobody_reads_any_more_though_nothing_happens(daemon: FeedingDaemon) -> None:
    with process(daemon) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert "ready" in watching.stdout.readline()
        watching.stdout.close()
        assert watching.stderr.read() == ""
        assert watching.wait(timeout=20) == 0
