"""Starts a launcher of the daemon's own, for a daemon that was not told of one. It ends with the daemon, however that
ends; it is started again when it is needed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from orchestrator.domain.errors import EngineUnavailable

log = structlog.get_logger()

START_TIMEOUT_SECONDS = 30
END_TIMEOUT_SECONDS = 5


class LauncherProcess:
    def __init__(self, owner: str, environment: Mapping[str, str]) -> None:
        self._owner = owner
        self._environment = environment
        self._directory = tempfile.TemporaryDirectory(prefix="code-executor-")
        self._path = Path(self._directory.name) / "launcher.sock"
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None

    async def where(self) -> Path:
        """Return where the launcher listens; start it if it does not run."""
        if self._process is None or self._process.returncode is not None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
            # Whoever does not wait so long goes away without it; the others, and whoever asks next, find it started.
            await asyncio.shield(self._starting)
        return self._path

    async def end(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(END_TIMEOUT_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._directory.cleanup()

    async def _start(self) -> None:
        self._path.unlink(missing_ok=True)
        self._process = None
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orchestrator", "launcher", "--leashed", "--owner", self._owner),
            env={**self._environment, "CODE_EXECUTOR_LAUNCHER_SOCKET": str(self._path)},
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the daemon, which still has sandboxes to remove
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                while not self._path.exists():
                    if process.returncode is not None:
                        raise EngineUnavailable(
                            f"The launcher ended at once with status {process.returncode}.", retry_after_seconds=5
                        )
                    await asyncio.sleep(0.01)
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                raise EngineUnavailable("The launcher did not start.", retry_after_seconds=5) from error
            raise
        self._process = process
        log.info("launcher.started", pid=process.pid)
