"""`code-executor top`: once as text or JSON, and on a screen that is kept up to date."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from orchestrator.commands.client import Event, Refused
from orchestrator.commands.overview import Overview, lines_of
from orchestrator.commands.terminal import api_client
from orchestrator.commands.top import listen
from tests.support.feeding_daemon import (
    CALL,
    CALLED,
    COMPLETED,
    ID,
    LOAD,
    OTHER_ID,
    RUNNING,
    SERVER,
    STATS,
    FeedingDaemon,
    event,
    feeding,
)

NOW = datetime(2026, 11, 16, 9, 31, 15, tzinfo=UTC)
ALSO_RUNNING = {**RUNNING, "executionId": OTHER_ID, "acceptedAt": "2026-11-16T09:31:00Z", "language": "typescript"}
DOWN = {**SERVER, "server": "memory", "state": "down", "tools": 0, "problem": "It does not answer."}


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedingDaemon]:
    with feeding(monkeypatch) as fake:
        yield fake


@pytest.fixture
def overview() -> Overview:
    running = {each["executionId"]: dict(each) for each in (RUNNING, ALSO_RUNNING)}
    ended = {"ended": {**COMPLETED, "executionId": "ended"}}
    return Overview(STATS, LOAD, running, ended, {"postgres": SERVER, "memory": DOWN})


def shown(overview: Overview, width: int | None = None, height: int | None = None) -> list[str]:
    return [line.plain.rstrip() for line in lines_of(overview, NOW, width, height)]


def test_everything_is_shown_at_a_glance(overview: Overview) -> None:
    assert shown(overview) == [
        "ready  1 running  0 waiting  4 warm",
        "last hour: 1204 executions, 12 failed, median 21 ms, p99 1.3 s",
        "",
        "Under way (2)",
        "Age   Calls  State    Language    Caller  Calling  Execution",
        f"75 s  0      running  python      alice            {ID}",
        f"15 s  0      running  typescript  alice            {OTHER_ID}",
        "",
        "Finished (1)",
        "Ago   Took   Calls  Outcome    Language  Caller  Execution",
        "74 s  1.2 s  2      completed  python    alice   ended",
        "",
        "Servers (2)",
        "Server    State      Tools  Problem",
        "postgres  connected  5",
        "memory    down       0      It does not answer.",
    ]


def test_where_nothing_ever_ran_there_are_no_figures_and_no_tables() -> None:
    nothing = {**STATS, "executions": 0, "outcomes": {}, "latency": {"p50Ms": None, "p90Ms": None, "p99Ms": None}}
    assert shown(Overview(nothing, {**LOAD, "ready": False, "problem": "The engine\nis gone."})) == [
        "not ready  1 running  0 waiting  4 warm",
        "last hour: 0 executions, 0 failed",
        "The engine is gone.",
        "",
        "Under way: none",
        "",
        "Finished: none",
        "",
        "Servers: none",
    ]


def test_events_bring_it_up_to_date(overview: Overview) -> None:
    for name, fields in (
        ("tool_call", CALL),
        ("tool_call", {**CALL, "number": 1, "tool": "list_tables"}),
        ("tool_call", CALLED),
        (
            "execution",
            {**ALSO_RUNNING, "state": "finished", "outcome": "timed_out", "finishedAt": "2026-11-16T09:31:15Z"},
        ),
        ("execution", {**RUNNING, "executionId": "new", "state": "queued", "acceptedAt": "2026-11-16T09:31:14Z"}),
        ("tool_call", {**CALL, "executionId": "of somebody else"}),
        ("server", {**DOWN, "state": "connected", "problem": None}),
        ("load", {**LOAD, "running": 7}),
        ("heartbeat", {}),
    ):
        overview.take(Event(name, fields))
    lines = shown(overview)
    assert lines[0] == "ready  7 running  0 waiting  4 warm"
    assert lines[5] == f"75 s  2      running  python    alice   postgres/list_tables  {ID}"
    assert lines[6].split() == ["1", "s", "0", "queued", "python", "alice", "new"]
    assert lines[10].split() == ["0", "s", "0", "timed_out", "typescript", "alice", OTHER_ID]
    assert lines[-1].split() == ["memory", "connected", "0"]


def test_calls_at_the_same_time_are_counted(overview: Overview) -> None:
    for number in range(50):
        overview.take(Event("tool_call", {**CALL, "number": number}))
    assert shown(overview)[5].endswith(f"postgres/execute_sql and 49 more  {ID}")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (1, 1), (200, 60)])
def test_a_small_screen_cuts_lines_and_tables_and_breaks_neither(overview: Overview, width: int, height: int) -> None:
    for number in range(200):
        key = f"{number:032x}"
        overview.take(Event("execution", {**RUNNING, "executionId": key, "caller": "名前" * 30}))
        overview.take(Event("execution", {**COMPLETED, "executionId": f"f{key[1:]}"}))
        overview.take(Event("server", {**DOWN, "server": key, "problem": "\x1b[2J\n" * 50}))
    lines = shown(overview, width, height)
    assert len(lines) <= height
    assert max(cell_len(line) for line in lines) <= width
    assert not any(set(line) & {"\x1b", "\n"} for line in lines)
    if height >= 24:
        assert len([line for line in lines if line.startswith("… ")]) == 3, "each section says how many are not shown"


def test_one_that_needs_little_leaves_its_room_to_the_others(overview: Overview) -> None:
    for number in range(200):
        overview.take(Event("execution", {**RUNNING, "executionId": str(number)}))
    lines = shown(overview, 80, 40)
    assert len(lines) == 40
    assert "It does not answer." in lines[-1]


def test_a_screen_that_is_too_small_for_all_shows_what_is_under_way(overview: Overview) -> None:
    lines = shown(overview, 80, 12)
    assert ID[:20] in lines[5]
    assert OTHER_ID[:20] in lines[6]
    assert not any("Servers" in line for line in lines)


def test_no_terminal_gets_it_once(daemon: FeedingDaemon) -> None:
    daemon.executions = [{**RUNNING, "caller": "x" * 500}, COMPLETED | {"executionId": "ended"}]
    ended = daemon.run("top")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "Under way (1)\nAge" in ended.stdout
    assert "x" * 500 in ended.stdout, "a file is never too narrow"
    assert "/events" not in daemon.asked
    assert any(path.startswith("/stats?since=") for path in daemon.asked)


def test_json_is_one_object(daemon: FeedingDaemon) -> None:
    daemon.executions = [RUNNING, COMPLETED | {"executionId": "ended"}]
    document = json.loads(daemon.run("top", "--json").stdout)
    assert document == {
        "now": LOAD,
        "lastHour": {"executions": 1204, "failed": 12, "p50Ms": 21.4, "p99Ms": 1340},
        "underWay": [RUNNING],
        "finished": [COMPLETED | {"executionId": "ended"}],
        "servers": [SERVER],
    }


@pytest.mark.parametrize("seconds", ["0", "-1", "0.1", "nan", "inf", "4000", "soon"])
def test_an_interval_out_of_range_is_refused(daemon: FeedingDaemon, seconds: str) -> None:
    ended = daemon.run("top", "--once", "--interval", seconds)
    assert (ended.exit_code, daemon.asked) == (2, [])


class Screen:
    """The command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, inside = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        command = ("env", "--default-signal=INT", sys.executable, "-m", "orchestrator", "top", *arguments)
        self.process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        os.close(inside)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text is drawn; the time limit of the test ends a wait in vain."""
        while text not in self.seen:
            self.seen += os.read(self._terminal, 65536).decode(errors="replace")

    def press(self, key: str) -> None:
        os.write(self._terminal, key.encode())

    def end(self) -> tuple[int, str]:
        try:
            self.wait_for("\x1b[?1049l")
            assert self.process.stderr is not None
            stderr = self.process.stderr.read()
            return self.process.wait(timeout=20), stderr
        finally:
            self.process.kill()
            self.process.communicate()
            os.close(self._terminal)


@pytest.mark.processes
@pytest.mark.timeout(30)
@pytest.mark.parametrize("how", ["q", "Ctrl-C", "SIGTERM"])
def test_the_screen_follows_what_happens_until_somebody_quits(daemon: FeedingDaemon, how: str) -> None:
    daemon.executions = [RUNNING]
    daemon.streams = [event(1, "load", LOAD) + event(2, "server", DOWN) + event(3, "execution", ALSO_RUNNING)]
    daemon.holds_the_last = True
    screen = Screen()
    screen.wait_for("\x1b[?1049h")
    screen.wait_for("It does not answer.")
    screen.wait_for(OTHER_ID[:20])
    if how == "SIGTERM":
        screen.process.send_signal(signal.SIGTERM)
    else:
        screen.process.send_signal(signal.SIGINT) if how == "Ctrl-C" else screen.press("q")
    assert screen.end() == (130 if how == "Ctrl-C" else 0, "")


async def test_after_missed_events_everything_is_read_again(daemon: FeedingDaemon) -> None:
    daemon.executions = [RUNNING]
    daemon.streams = [
        event(1, "load", LOAD) + event(2, "load", LOAD),
        event(9, "gap", {}, epoch="b") + event(9, "load", LOAD, epoch="b"),
    ]
    overview = Overview()
    with pytest.raises(Refused):
        await listen(api_client(), overview, asyncio.Event())
    assert daemon.resumed_after == [None, "a-2", "b-9"]
    read = [path.partition("?")[0] for path in daemon.asked]
    assert read.count("/tools/costs") == 2, "once at the beginning, once after the gap"
    assert list(overview.under_way) == [ID]


async def test_a_lost_connection_is_shown_until_there_is_another(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(1, "load", LOAD), event(2, "load", LOAD)]
    overview, seen = Overview(), []

    class Changed(asyncio.Event):
        def set(self) -> None:
            seen.append(overview.disconnected)

    with pytest.raises(Refused):
        await listen(api_client(), overview, Changed())
    lost = "The daemon ended the stream too early. Trying again."
    assert seen == [None, lost, None, lost]
    assert lost in shown(overview)


@pytest.mark.processes
@pytest.mark.timeout(30)
def test_a_key_that_is_no_longer_known_ends_it_with_the_reason(daemon: FeedingDaemon) -> None:
    daemon.streams = [event(1, "load", LOAD)]
    code, stderr = Screen().end()
    assert code == 77
    assert "The key is not known." in stderr


def test_a_daemon_that_is_not_there_is_told_at_once(daemon: FeedingDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_EXECUTOR_URL", "http://127.0.0.1:1")
    ended = daemon.run("top")
    assert (ended.exit_code, ended.stdout) == (69, "")
    assert "Start it with 'make up'." in ended.stderr
