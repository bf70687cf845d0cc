"""`code-executor run --background`, `follow` and `cancel` on a daemon that answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands import feed
from orchestrator.commands import follow as follow_module
from orchestrator.commands.cli import app
from orchestrator.commands.client import ApiClient, Event
from tests.support.fake_api import QuietHandler, serving

RESULT = {
    "outcome": "failed",
    "exitCode": 3,
    "state": "finished",
    "output": "one two\n",
    "truncated": False,
    "mistakes": [],
    "images": None,
    "error": None,
}


def event(event_id: str, name: str, fields: dict[str, Any]) -> str:
    return f"id: {event_id}\nevent: {name}\ndata: {json.dumps(fields)}\n\n"


class Daemon:
    """Answers each request for events with the next of its streams, of which a str is events and an int a status."""

    def __init__(self) -> None:
        self.streams: list[str | int] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.bodies: list[dict[str, Any]] = []

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), input="print(4)")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    fake = Daemon()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            fake.asked.append(("GET", self.path, self.headers.get("Last-Event-ID")))
            if self.path == "/whoami":
                self.answer(200, {"caller": "alice"})
                return
            if self.path.startswith("/executions?"):
                newest = "own" if self.path.endswith("&caller=alice") else "of-somebody-else"
                self.answer(200, {"executions": [{"executionId": newest}], "next": None})
                return
            stream = fake.streams.pop(0)
            if isinstance(stream, int):
                self.answer(stream, {"detail": "There is none.", "hint": "Look.", "code": "not_found"})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.end_headers()
            self.wfile.write(stream.encode())

        def do_POST(self) -> None:
            fake.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(202, {"executionId": "e1", "state": "running"})

        def do_DELETE(self) -> None:
            fake.asked.append(("DELETE", self.path, None))
            if self.path == "/executions/ended":
                hint = "Read its result with GET /executions/{id}."
                self.answer(409, {"detail": "It is finished.", "hint": hint, "code": "already_finished"})
            else:
                self.answer(200, {**RESULT, "executionId": "e1", "outcome": "cancelled"})

    with serving(Handler, monkeypatch):
        monkeypatch.setattr(feed, "PAUSES_SECONDS", (0, 0))
        yield fake


STARTED = event("0-0-0", "started", {"executionId": "e1", "position": 0})
ONE = event("4-0-0", "stdout", {"text": "one "})
TWO = event("8-0-0", "stdout", {"text": "two\n"})
END = event("8-0-0-end", "result", RESULT)


def test_a_program_in_the_background_prints_its_id(daemon: Daemon) -> None:
    ended = daemon.run("run", "-", "--language", "python", "--background", "--timeout", "3600")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "e1\n", "")
    assert daemon.bodies == [
        {"code": "print(4)", "language": "python", "check": "strict", "timeoutSeconds": 3600, "background": True}
    ]


def test_pictures_of_a_program_in_the_background_are_for_follow(daemon: Daemon) -> None:
    ended = daemon.run("run", "-", "--background", "--images", "pictures")
    assert (ended.exit_code, daemon.bodies) == (64, [])
    assert "follow ID --images" in ended.stderr


def test_following_prints_what_the_program_prints_and_exits_as_it_did(daemon: Daemon) -> None:
    daemon.streams = [STARTED + ONE + TWO + END]
    ended = daemon.run("follow", "e1")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (3, "one two\n", "")


def test_the_stream_is_closed_by_the_task_that_reads_it(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    closed_by_its_reader: list[bool] = []

    async def watched(*_: object) -> AsyncGenerator[Event, None]:
        reader = asyncio.current_task()
        try:
            yield Event("result", RESULT)
            yield Event("never", {})
        finally:
            closed_by_its_reader.append(asyncio.current_task() is reader)

    monkeypatch.setattr(ApiClient, "follow", watched)
    assert daemon.run("follow", "e1").exit_code == 3
    assert closed_by_its_reader == [True]  # else the end of the loop closes it, and those within it, all at once


def test_a_lost_connection_is_taken_up_after_the_last_event(daemon: Daemon) -> None:
    daemon.streams = [STARTED + ONE, STARTED.replace("0-0-0", "4-0-0"), STARTED.replace("0-0-0", "4-0-0") + TWO + END]
    ended = daemon.run("follow", "e1")
    assert (ended.exit_code, ended.stdout) == (3, "one two\n")
    assert [last for _, _, last in daemon.asked] == [None, "4-0-0", "4-0-0"]


def test_a_daemon_that_stays_away_is_given_up(daemon: Daemon) -> None:
    daemon.streams = [STARTED] * 3
    ended = daemon.run("follow", "e1")
    assert (ended.exit_code, len(daemon.asked)) == (69, 3)
    assert "ended the stream too early" in ended.stderr


def test_without_an_id_ones_own_newest_program_is_followed(daemon: Daemon) -> None:
    daemon.streams = [END]
    daemon.run("follow")
    assert daemon.asked[-1][1] == "/executions/own/events"


def test_an_execution_that_is_not_there_is_told_at_once(daemon: Daemon) -> None:
    daemon.streams = [404]
    ended = daemon.run("follow", "nothing")
    assert (ended.exit_code, len(daemon.asked)) == (66, 1)
    assert "There is none. Look. (not_found)" in ended.stderr


def test_one_that_was_refused_never_ran(daemon: Daemon) -> None:
    refused = {**RESULT, "outcome": None, "state": "refused", "error": {"code": "queue_full", "detail": "Too many."}}
    daemon.streams = [event("0-0-0-end", "result", refused)]
    ended = daemon.run("follow", "e1")
    assert ended.exit_code == 75
    assert "never ran: Too many." in ended.stderr


def test_ctrl_c_only_stops_watching(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow_module, "_follow", interrupted)
    ended = daemon.run("follow", "e1")
    assert ended.exit_code == 130
    assert "no longer watching" in ended.stderr
    assert "code-executor cancel e1" in ended.stderr
    assert daemon.asked == []


def test_cancelling_says_what_became_of_it(daemon: Daemon) -> None:
    ended = daemon.run("cancel", "e1")
    assert (ended.exit_code, ended.stderr) == (0, "code-executor: e1 is cancelled\n")
    assert daemon.asked == [("DELETE", "/executions/e1", None)]


def test_one_that_has_ended_cannot_be_cancelled(daemon: Daemon) -> None:
    ended = daemon.run("cancel", "ended")
    assert ended.exit_code == 65
    assert ended.stderr == (
        "code-executor: It is finished. 'code-executor show ID' shows how it ended. (already_finished)\n"
    )


def test_a_directory_that_cannot_be_used_is_told_before_anything_is_followed(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = daemon.run("follow", "e1", "--out", str(tmp_path / "file"))
    assert (ended.exit_code, daemon.asked) == (73, [])
