"""A daemon for the commands: it answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from tests.support.fake_api import QuietHandler, serving


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

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            self.answer(*fake.answers.pop(0))

    with serving(Handler, monkeypatch):
        yield fake
