"""A daemon process that can be killed and started again on the same data."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.testbed.engine import remove_containers_of
from bench.testbed.process import listening_port, serve
from tests.support.api import Api, eventually, until
from tests.support.daemon_process import is_ready
from tests.support.installation import Installation

START_SECONDS = 60.0
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
        return self.installation.owner

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{listening_port(self._log)}"

    async def start(self) -> None:
        """Returns when it is ready."""
        self._starts += 1
        self._process = serve(self.installation, self._log)
        await until(lambda: listening_port(self._log) or self._ended, seconds=START_SECONDS)
        if self._ended:
            raise RuntimeError(f"the daemon did not start: {self._log.read_text()[-1000:]}")
        async with self.caller("admin") as api:
            await eventually(lambda: is_ready(api), seconds=START_SECONDS)

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
        if self.installation.was_started:
            remove_containers_of(self.owner)

    @property
    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def _log(self) -> Path:
        return self.installation.settings.data_dir.with_name(f"daemon-{self._starts}.log")
