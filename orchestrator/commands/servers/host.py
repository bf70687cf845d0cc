"""What the commands do on this machine and on its engine, all of it through scripts/own_servers.sh."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK_SECONDS = 900.0
LOCK_LOOK_SECONDS = 0.2
ENGINE_SECONDS = 30
LOG_LINES = 30


class HostFailed(Exception):
    """A script has failed and has already said why, or the message says it."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    status: str
    restarts: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Host:
    project: Path
    prefix: str = ""  # of all names on the engine, where a second stack runs beside the first

    @property
    def daemon(self) -> str:
        return f"{self.prefix}mcp-code-executor"

    def container_of(self, server: str) -> str:
        return f"{self.prefix}mcp-own-{server}"

    def require_project(self) -> None:
        if not (self.project / "scripts" / "own_servers.sh").exists():
            raise HostFailed(
                "This command works in the project's directory on the host, not in the daemon's container."
            )

    def script(self, *arguments: str) -> None:
        """Run the script in front of the user: its steps show what happens, and its last line what went wrong."""
        ended = subprocess.run(  # noqa: S603  # our own script, and no shell in between
            [str(self.project / "scripts" / "own_servers.sh"), *arguments], cwd=self.project, check=False
        )
        if ended.returncode == 130:
            raise KeyboardInterrupt
        if ended.returncode != 0:
            raise HostFailed("")

    @contextmanager
    def tree_locked(self) -> Iterator[None]:
        """Hold what make holds while it builds, so that neither sees the other's half-made work."""
        build = self.project / ".build"
        build.mkdir(exist_ok=True)
        with (build / "lock").open("a") as file:
            give_up = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise HostFailed(f"Another make has held {file.name} for 15 minutes. End it first.") from None
                    time.sleep(LOCK_LOOK_SECONDS)
            yield

    @contextmanager
    def workshop(self, name: str) -> Iterator[Path]:
        """Lend a directory for what is not finished yet; it is gone afterwards, whatever happens."""
        place = self.project / ".build" / "own" / f".{name}.new"
        shutil.rmtree(place, ignore_errors=True)
        (place / "locks").mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def fetched(self, name: str) -> Path:
        return self.project / ".build" / "own" / name

    def daemon_runs(self) -> bool:
        state = self.container(self.daemon)
        return state is not None and state.status == "running"

    def daemon_reads_own_servers(self) -> bool:
        """Tell whether the daemon's container is of a version that has servers.d mounted."""
        mounts = self._docker("container", "inspect", "--format", "{{json .Mounts}}", self.daemon)
        return mounts is not None and "/etc/code-executor/servers.d" in mounts

    def container(self, name: str) -> ContainerState | None:
        """Return how a container is, or None if there is none or nobody can be asked."""
        told = self._docker("container", "inspect", "--format", "{{json .State}} {{.RestartCount}}", name)
        if told is None:
            return None
        state, _, restarts = told.rpartition(" ")
        parsed: dict[str, Any] = json.loads(state)
        return ContainerState(str(parsed["Status"]), int(restarts), int(parsed["ExitCode"]))

    def log_of(self, name: str) -> str:
        return self._docker("logs", "--tail", str(LOG_LINES), name, both=True) or ""

    def try_in_daemon(self, name: str) -> str | None:
        """Run `servers test` where the daemon is; return what it printed, or None if it could not be run."""
        return self._docker(
            "exec", self.daemon, "code-executor", "servers", "test", name, "--json", seconds=120, or_status=1
        )

    def _docker(
        self, *arguments: str, both: bool = False, seconds: float = ENGINE_SECONDS, or_status: int = 0
    ) -> str | None:
        docker = shutil.which("docker")
        if docker is None:
            return None
        try:
            ended = subprocess.run(  # noqa: S603  # no shell in between, and every word is our own or checked
                [docker, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if both else subprocess.DEVNULL,
                text=True,
                errors="replace",
                timeout=seconds,
                env=os.environ,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return ended.stdout.strip() if ended.returncode in (0, or_status) else None
