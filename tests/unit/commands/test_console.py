"""`code-executor console`: a link that is told and opened, and seen by nobody else."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.commands import console as console_module
from orchestrator.commands.console import find_opener, open_unseen
from tests.support.feeding_daemon import NO_SUCH_PATH, FeedingDaemon, feeding
from tests.unit.setup.machine import until

MADE = {"code": "one-time_code", "expiresInSeconds": 60}


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedingDaemon]:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with feeding(monkeypatch) as fake:
        fake.answers["/console/codes"] = MADE
        yield fake


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a screen before the user, and a browser that keeps what it was given and how, and makes noise."""
    opener = tmp_path / "commands" / "xdg-open"
    opener.parent.mkdir()
    kept = tmp_path / "kept"
    opener.write_text(
        f'#!/bin/sh\necho noise; echo noise >&2\necho "$@" >{kept}.arguments\nstat -c %a "$1" >{kept}.mode\n'
        f'cp "$1" {kept}.new && mv {kept}.new {kept}\n'
    )
    opener.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(console_module, "SECONDS_TO_READ", 0)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{opener.parent}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":0")
    for name in console_module.ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    return kept


def test_the_link_is_all_of_the_output_and_how_long_it_works_is_told_beside_it(daemon: FeedingDaemon) -> None:
    ended = daemon.run("console")
    assert ended.exit_code == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#code=one-time_code\n", ended.stdout)
    assert ended.stderr == "code-executor: the link works once, within 60 s\n"
    assert daemon.asked == ["/console/codes"]


def test_json_has_the_link_and_opens_nothing(daemon: FeedingDaemon, browser: Path) -> None:
    ended = daemon.run("console", "--json")
    document = json.loads(ended.stdout)
    assert document["url"].endswith("/#code=one-time_code")
    assert document["expiresInSeconds"] == 60
    assert list(Path.home().iterdir()) == []


def test_the_browser_is_given_the_link_where_no_other_user_sees_it(daemon: FeedingDaemon, browser: Path) -> None:
    ended = daemon.run("console")
    assert ended.stderr == "code-executor: opened in your browser; the link works once, within 60 s\n"
    until(browser.exists)
    assert f'content="0;url={ended.stdout.strip()}"' in browser.read_text()
    assert "code=" not in browser.with_suffix(".arguments").read_text()
    assert browser.with_suffix(".mode").read_text() == "600\n"
    until(lambda: list(Path.home().iterdir()) == [])


def test_a_browser_can_be_left_alone(daemon: FeedingDaemon, browser: Path) -> None:
    ended = daemon.run("console", "--no-open")
    assert ended.stderr == "code-executor: the link works once, within 60 s\n"
    assert list(Path.home().iterdir()) == []


def test_a_link_that_cannot_be_opened_is_still_printed(
    daemon: FeedingDaemon, browser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    ended = daemon.run("console")
    assert (ended.exit_code, ended.stderr) == (0, "code-executor: the link works once, within 60 s\n")
    assert "/#code=one-time_code" in ended.stdout


def test_nobody_waits_for_the_browser(browser: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "held"
    opener = tmp_path / "commands" / "slow"
    opener.write_text(f"#!/bin/sh\nmkfifo {fifo}\ncat {fifo}\n")
    opener.chmod(0o755)
    assert open_unseen(str(opener), "http://127.0.0.1/#code=x")
    until(lambda: fifo.exists() and stat.S_ISFIFO(fifo.stat().st_mode))
    fifo.write_text("go on")
    until(lambda: list(Path.home().iterdir()) == [])


@pytest.mark.parametrize(
    ("platform", "environment", "found"),
    [
        ("linux", {"DISPLAY": ":0"}, "xdg-open"),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "xdg-open"),
        ("linux", {}, None),
        ("linux", {"DISPLAY": ""}, None),
        ("linux", {"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, None),
        ("linux", {"DISPLAY": ":0", "SUDO_USER": "alice"}, None),
        ("linux", {"DISPLAY": ":0", "PATH": "/nonexistent"}, None),
        ("darwin", {}, "open"),
        ("darwin", {"SSH_TTY": "/dev/ttys001"}, None),
        ("win32", {"DISPLAY": ":0"}, None),
    ],
)
def test_a_browser_is_opened_only_for_whoever_sits_at_the_machine(
    tmp_path: Path, platform: str, environment: dict[str, str], found: str | None
) -> None:
    for name in ("xdg-open", "open"):
        (tmp_path / name).touch(mode=0o755)
    opener = find_opener(platform, {"PATH": str(tmp_path), **environment})
    assert (opener and Path(opener).name) == found


def test_without_a_daemon_the_user_is_told_how_to_start_it(
    daemon: FeedingDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODE_EXECUTOR_URL", "http://127.0.0.1:1")
    ended = daemon.run("console")
    assert (ended.exit_code, ended.stdout) == (69, "")
    assert ended.stderr == "code-executor: No daemon answers at http://127.0.0.1:1. Start it with 'make up'.\n"


@pytest.mark.parametrize("command", ["console", "top", "watch"])
def test_a_daemon_of_an_earlier_version_is_told_as_such(daemon: FeedingDaemon, command: str) -> None:
    daemon.answers, daemon.streams = {}, [NO_SUCH_PATH]
    ended = daemon.run(command)
    assert (ended.exit_code, ended.stdout) == (69, "")
    assert "is older than this command" in ended.stderr
    assert "Update it with 'make up'." in ended.stderr
