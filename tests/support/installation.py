"""An installation whose daemon runs within the test's own process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from bench.testbed import installation
from orchestrator.daemon import running_daemon
from tests.support.api import Api, until

PROJECT = installation.PROJECT
IMPATIENT = {"check_seconds": 0.5, "shutdown_grace_seconds": 1}


class Installation(installation.Installation):
    @classmethod
    def create(cls, directory: Path, **overrides: Any) -> Self:
        return super().create(directory, **{**IMPATIENT, **overrides})

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Api]:
        """A daemon that is ready; afterwards nothing of it is left on the engine."""
        async with (
            running_daemon(self.settings) as daemon,
            Api.connect(f"http://127.0.0.1:{daemon.port}", self.keys["admin"]) as api,
        ):
            await until(lambda: daemon.readiness.ready, seconds=60)
            yield api
