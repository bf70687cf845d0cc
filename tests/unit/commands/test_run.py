"""`code-executor run` on a daemon that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app

PICTURES = [
    {"mimeType": "image/png", "bytes": 5, "data": "Zmlyc3Q="},
    {"mimeType": "image/jpeg", "bytes": 6, "data": "c2Vjb25k"},
]


class Daemon:
    """Streams the result that it is told."""

    def __init__(self) -> None:
        self.result: dict[str, Any] = {
            "outcome": "completed",
            "exitCode": 0,
            "output": "4\n",
            "truncated": False,
            "mistakes": [],
            "images": [],
        }

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["run", "-", *arguments], input="print(4)")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    fake = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            printed = {"text": fake.result["output"]}
            events = f"event: stdout\ndata: {json.dumps(printed)}\n\nevent: result\ndata: {json.dumps(fake.result)}\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Content-Length", str(len(events.encode())))
            self.end_headers()
            self.wfile.write(events.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("CODE_EXECUTOR_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("CODE_EXECUTOR_KEY", "key")
        yield fake
        server.shutdown()
        thread.join()


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


def test_a_directory_that_cannot_be_made_is_told(daemon: Daemon, tmp_path: Path) -> None:
    daemon.result["images"] = PICTURES
    (tmp_path / "file").write_text("")
    ended = daemon.run("--images", str(tmp_path / "file"))
    assert ended.exit_code == 64
    assert "The pictures cannot be saved: " in ended.stderr
