"""A daemon process that can be killed and started again on the same data."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import docker.errors

from orchestrator.settings import PREFIX
from tests.support.api import Api, eventually, until
from tests.support.engine import containers_of, remove_network
from tests.support.installation import PROJECT, Installation

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class Victim:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @classmethod
    @asynccontextmanager
    async def in_directory(cls, directory: Path, **settings: Any) -> AsyncIterator[Victim]:
        """Whatever happens to it, nothing of it is left in the end."""
        victim = cls(Installation.create(directory, **settings))
        try:
            yield victim
        finally:
            await victim.stop()
            victim.remove_what_is_left()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def owner(self) -> str:
        return self.installation.settings.instance_file.read_text().strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{_port(self._log)}"

    async def start(self) -> None:
        """Returns when it is ready."""
        self._starts += 1
        self._process = self._serve()
        await until(lambda: _port(self._log) or self._ended, seconds=START_SECONDS)
        if self._ended:
            raise RuntimeError(f"the daemon did not start: {self._log.read_text()[-1000:]}")
        async with self.caller("admin") as api:
            await eventually(lambda: _is_ready(api), seconds=START_SECONDS)

    def caller(self, role: str) -> Any:
        return Api.connect(self.url, self.installation.keys[role])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    async def stop(self) -> None:
        if self._process is not None and not self._ended:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)

    def remove_what_is_left(self) -> None:
        if self.installation.settings.instance_file.exists():
            for container in containers_of(self.owner):
                with suppress(docker.errors.APIError):  # it is going away by itself
                    container.remove(force=True)
        remove_network(self.installation.settings.network)

    @property
    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def _log(self) -> Path:
        return self.installation.settings.data_dir.with_name(f"daemon-{self._starts}.log")

    def _serve(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "orchestrator", "serve"]
        with self._log.open("wb") as stderr:
            return subprocess.Popen(command, env=self._environment(), stderr=stderr, cwd=PROJECT)

    def _environment(self) -> dict[str, str]:
        settings = self.installation.settings
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        chosen = {f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set}
        return {**inherited, **chosen, f"{PREFIX}LOG_FORMAT": "json"}


def _port(log: Path) -> int | None:
    lines = log.read_text().splitlines() if log.exists() else []
    return next((int(json.loads(line)["port"]) for line in lines if '"daemon.listening"' in line), None)


async def _is_ready(api: Api) -> bool:
    return (await api.get("/readyz"))[0] == 200
