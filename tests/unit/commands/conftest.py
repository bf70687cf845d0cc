"""A daemon for the commands: it answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app


class FakeDaemon:
    """Answers every GET with the next of what it was told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []

    def answer(self, body: dict[str, Any], status: int = 200) -> None:
        self.answers.append((status, body))

    def refuse(self, status: int, detail: str, hint: str, code: str) -> None:
        self.answer({"detail": detail, "hint": hint, "code": code, "status": status}, status)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    fake = FakeDaemon()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            status, body = fake.answers.pop(0)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

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
