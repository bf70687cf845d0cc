"""A daemon for the commands that watch it: it answers by path, and tells one stream of events after the other."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands import feed
from orchestrator.commands.cli import app
from tests.support.fake_api import QuietHandler, serving

ID = "0f8fad5bd9cb469fa16570867728950e"
NO_SUCH_PATH = "no such path"
OTHER_ID = "7c9e6679f7ac4a2fb1f5a3c2d1e0b9a8"
LOAD = {"running": 1, "waiting": 0, "warm": 4, "sandboxes": 5, "ready": True, "problem": None}
SERVER = {"server": "postgres", "state": "connected", "tools": 5, "problem": None}
RUNNING: dict[str, Any] = {
    "executionId": ID,
    "state": "running",
    "outcome": None,
    "exitCode": None,
    "caller": "alice",
    "role": "developer",
    "kind": "program",
    "language": "python",
    "acceptedAt": "2026-11-16T09:30:00Z",
    "finishedAt": None,
    "executionTime": None,
    "toolCallCount": 0,
    "error": None,
}
COMPLETED = {
    **RUNNING,
    "state": "finished",
    "outcome": "completed",
    "exitCode": 0,
    "finishedAt": "2026-11-16T09:30:01Z",
    "executionTime": 1213,
    "toolCallCount": 2,
}
CALL = {
    "executionId": ID,
    "number": 0,
    "server": "postgres",
    "tool": "execute_sql",
    "outcome": "in_flight",
    "startedMs": 10,
    "durationMs": 0,
    "requestBytes": 64,
    "resultBytes": 0,
    "detail": None,
}
CALLED = {**CALL, "outcome": "done", "durationMs": 25.4, "resultBytes": 2048}
STATS = {
    "now": LOAD,
    "executions": 1204,
    "outcomes": {"completed": 1180, "failed": 10, "timed_out": 2, "cancelled": 12},
    "latency": {"p50Ms": 21.4, "p90Ms": 80, "p99Ms": 1340},
}


def event(number: int, name: str, fields: dict[str, Any], epoch: str = "a") -> str:
    return f"id: {epoch}-{number}\nevent: {name}\ndata: {json.dumps(fields)}\n\n"


class FeedingDaemon:
    """Ends a stream after what it has to tell, and refuses the key when there is no other, which ends any command."""

    def __init__(self) -> None:
        self.streams: list[str] = []  # each is events, or NO_SUCH_PATH
        self.answers: dict[str, Any] = {"/stats": STATS, "/tools/costs": {"servers": [SERVER]}}
        self.executions: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.resumed_after: list[str | None] = []
        self.holds_the_last = False  # rather than ending it
        self.over = threading.Event()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))


class _Handler(QuietHandler):
    fake: FeedingDaemon

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.fake.asked.append(self.path)
        if address.path == "/events":
            self._tell()
        elif address.path == "/executions":
            wanted = dict(pair.split("=") for pair in address.query.split("&"))
            found = [each for each in self.fake.executions if each["state"] == wanted.get("state", each["state"])]
            self.answer(200, {"executions": found, "next": None})
        else:
            self._answer_as_told(address.path)

    def do_POST(self) -> None:
        self.fake.asked.append(self.path)
        self._answer_as_told(self.path)

    def _answer_as_told(self, path: str) -> None:
        told = self.fake.answers.get(path)
        if told is None:
            self._refuse(404, "There is no such path.", "not_found")
        else:
            self.answer(200, told)

    def _refuse(self, status: int, detail: str, code: str) -> None:
        self.answer(status, {"detail": detail, "hint": "", "code": code, "status": status})

    def _tell(self) -> None:
        self.fake.resumed_after.append(self.headers.get("Last-Event-ID"))
        if not self.fake.streams:
            self._refuse(401, "The key is not known.", "unauthenticated")
            return
        stream = self.fake.streams.pop(0)
        if stream == NO_SUCH_PATH:
            self._refuse(404, "There is no such path.", "not_found")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        self.wfile.write(stream.encode())
        if self.fake.holds_the_last and not self.fake.streams:
            self.fake.over.wait(60)


@contextmanager
def feeding(monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedingDaemon]:
    """Let the command line find such a daemon, and connect again without a pause."""
    fake = FeedingDaemon()
    handler = type("Handler", (_Handler,), {"fake": fake})
    monkeypatch.setattr(feed, "PAUSES_SECONDS", (0, 0))
    with serving(handler, monkeypatch):
        try:
            yield fake
        finally:
            fake.over.set()
