from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

PROJECT = Path(__file__).resolve().parents[3]

# What many tools do at Ctrl-C: they end as if they had failed. The file says that there is something to interrupt.
CATCHES_INTERRUPT = f"""exec "{sys.executable}" -c '
import pathlib, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
pathlib.Path("started").touch()
signal.pause()'"""


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the scripts whose machine is made of stand-in commands, each of which records its calls."""

    path: Path

    @property
    def commands(self) -> Path:
        return self.path / "commands"

    def command(self, name: str, body: str = "exit 0") -> None:
        stand_in = self.commands / name
        stand_in.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.path}/calls"\n{body}\n')
        stand_in.chmod(0o755)

    def calls(self) -> list[str]:
        record = self.path / "calls"
        return record.read_text().splitlines() if record.exists() else []

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path, env=self._plain | environment, capture_output=True, text=True, timeout=60
        )

    def bash(self, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run(*script(text), **environment)

    def start(self, *command: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
        """In a session of its own, where Ctrl-C counts even if whoever runs the tests ignores it."""
        return subprocess.Popen(
            ("env", "--default-signal=INT", *command),
            cwd=self.path,
            env=self._plain | environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupt(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Presses Ctrl-C, which reaches all processes in the foreground, when there is something to interrupt."""
        with self.start(*command, **environment) as process:
            try:
                until((self.path / "started").exists)
                os.killpg(process.pid, signal.SIGINT)
                stdout, stderr = process.communicate(timeout=20)
            finally:
                with suppress(ProcessLookupError):  # all have ended, as they should
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    @property
    def _plain(self) -> dict[str, str]:
        return {"PATH": f"{self.commands}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.path)}


def script(text: str) -> tuple[str, ...]:
    return ("bash", "-euo", "pipefail", "-c", f". scripts/lib.sh; {text}")


def until(condition: Callable[[], Any], seconds: float = 10) -> None:
    """A bounded wait for what only polling can see."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def unprivileged(tree: Tree) -> None:
    tree.command("id", 'if [ "$1" = -u ]; then echo 1000; else echo somebody; fi')


class Ready(BaseHTTPRequestHandler):
    """A daemon that is ready, whatever it is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None: ...


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
