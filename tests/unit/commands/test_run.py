"""`code-executor run` on a daemon that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from orchestrator.commands.client import ApiClient, Event
from tests.support.fake_api import QuietHandler, serving

PICTURES = [
    {"mimeType": "image/png", "bytes": 5, "data": "Zmlyc3Q="},
    {"mimeType": "image/jpeg", "bytes": 6, "data": "c2Vjb25k"},
]


class Daemon:
    """Streams the result that it is told."""

    def __init__(self) -> None:
        self.result: dict[str, Any] = {
            "executionId": "e1",
            "outcome": "completed",
            "exitCode": 0,
            "output": "4\n",
            "truncated": False,
            "mistakes": [],
            "images": [],
        }
        self.requests = 0

    def run(self, *arguments: str, program: str = "print(4)") -> Result:
        return CliRunner().invoke(app, ["run", "-", *arguments], input=program)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    fake = Daemon()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            fake.requests += 1
            printed = {"text": fake.result["output"]}
            events = f"event: stdout\ndata: {json.dumps(printed)}\n\nevent: result\ndata: {json.dumps(fake.result)}\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Content-Length", str(len(events.encode())))
            self.end_headers()
            self.wfile.write(events.encode())

    with serving(Handler, monkeypatch):
        yield fake


def test_a_program_without_pictures_prints_only_its_own_output(daemon: Daemon) -> None:
    ended = daemon.run()
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "4\n", "")


@pytest.mark.parametrize(("pictures", "count"), [(PICTURES[:1], "1 picture"), (PICTURES, "2 pictures")])
def test_pictures_are_counted(daemon: Daemon, pictures: list[dict[str, Any]], count: str) -> None:
    daemon.result["images"] = pictures
    ended = daemon.run()
    assert (ended.exit_code, ended.stdout) == (0, "4\n")
    assert ended.stderr == f"code-executor: {count}; --images DIRECTORY saves them\n"


def test_pictures_are_saved_in_their_order(daemon: Daemon, tmp_path: Path) -> None:
    daemon.result["images"] = PICTURES
    ended = daemon.run("--images", str(tmp_path / "new" / "pictures"))
    assert ended.exit_code == 0
    saved = {path.name: path.read_bytes() for path in (tmp_path / "new" / "pictures").iterdir()}
    assert saved == {"1.png": b"first", "2.jpeg": b"second"}


def test_the_exit_code_stays_the_programs_own(daemon: Daemon, tmp_path: Path) -> None:
    daemon.result |= {"images": PICTURES, "outcome": "failed", "exitCode": 3}
    assert daemon.run("--images", str(tmp_path)).exit_code == 3


@pytest.mark.parametrize("option", ["--images", "--out"])
def test_a_directory_that_cannot_be_used_is_told_before_anything_runs(
    daemon: Daemon, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("")
    ended = daemon.run(option, str(tmp_path / "file"))
    assert (ended.exit_code, daemon.requests) == (73, 0)
    assert ended.stderr == f"code-executor: Nothing can be saved in {tmp_path / 'file'}: it is not a directory.\n"


@pytest.mark.parametrize("option", ["--images", "--out"])
def test_an_empty_name_is_not_the_current_directory(daemon: Daemon, option: str) -> None:
    ended = daemon.run(option, "")
    assert (ended.exit_code, daemon.requests) == (64, 0)
    assert "must not be empty" in ended.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_a_time_that_nothing_can_take_is_not_sent(daemon: Daemon, seconds: str) -> None:
    ended = daemon.run("--timeout", seconds)
    assert (ended.exit_code, daemon.requests) == (64, 0)
    assert "--timeout must be a number of seconds greater than 0." in ended.stderr


def test_pictures_that_cannot_be_saved_do_not_hide_the_result(daemon: Daemon, tmp_path: Path) -> None:
    daemon.result["images"] = PICTURES
    (tmp_path / "2.jpeg").mkdir()
    ended = daemon.run("--images", str(tmp_path), "--json")
    assert ended.exit_code == 73
    assert json.loads(ended.stdout)["output"] == "4\n"
    assert ended.stderr == f"code-executor: 2 pictures cannot be saved in {tmp_path}: Is a directory\n"


def test_an_empty_program_is_not_sent(daemon: Daemon) -> None:
    ended = daemon.run(program="")
    assert (ended.exit_code, daemon.requests) == (65, 0)
    assert ended.stderr == "code-executor: Standard input is empty: there is no program to run.\n"


def test_ctrl_c_says_what_was_cancelled_and_how_to_look_at_it(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> AsyncGenerator[Event, None]:
        yield Event("started", {"executionId": "e1", "position": 0})
        raise KeyboardInterrupt

    monkeypatch.setattr(ApiClient, "execute", interrupted)
    ended = daemon.run()
    assert ended.exit_code == 130
    assert ended.stderr == (
        "code-executor: cancelled e1; 'code-executor show e1' shows what it did,\n"
        "'code-executor files e1' lists the files that it left.\n"
    )


def test_ctrl_c_before_the_program_began_names_no_execution(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> AsyncGenerator[Event, None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(ApiClient, "execute", interrupted)
    ended = daemon.run()
    assert (ended.exit_code, ended.stderr) == (130, "code-executor: cancelled before the program began\n")


def test_ctrl_c_while_one_is_started_in_the_background_does_not_say_that_it_was_cancelled(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ApiClient, "execute_in_background", interrupted)
    ended = daemon.run("--background")
    assert ended.exit_code == 130
    assert "'code-executor executions' shows whether the program was started" in ended.stderr
