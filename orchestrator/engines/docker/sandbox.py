"""A sandbox on the Docker engine: one container, used once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

from orchestrator.domain.errors import OrchestratorError, SandboxFault
from orchestrator.domain.execution import Ending, Outcome
from orchestrator.domain.sandbox import Program
from orchestrator.engines.docker.launcher_client import LauncherClient
from orchestrator.engines.runner.handover import FileSink
from orchestrator.engines.runner.session import Ended, Pass, Receive, SupervisorSession

# A supervisor that was let go needs a few milliseconds; one that hangs is killed.
LEAVE_SECONDS = 2.0
FAREWELL_SECONDS = 5.0
# On a busy machine the engine tells of a lack of memory after the container is gone.
PAUSES_SECONDS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.75, 1.5)
KILLED = 9


class DockerSandbox:
    def __init__(self, container_id: str, supervisor: SupervisorSession, launcher: LauncherClient) -> None:
        self.id = container_id
        self._supervisor = supervisor
        self._launcher = launcher

    @property
    def alive(self) -> bool:
        return self._supervisor.alive

    async def preload(self) -> None:
        await self._supervisor.preload()

    async def bring(self, path: str, pieces: AsyncIterable[bytes]) -> None:
        try:
            await self._supervisor.bring(path, pieces)
        except SandboxFault:
            if await self._was_out_of_memory():
                raise SandboxFault(f"{path!r} does not fit into the sandbox's memory") from None
            raise

    @property
    def handing_over(self) -> bool:
        return self._supervisor.handing_over

    def stop(self) -> None:
        self._supervisor.stop()

    async def run(
        self,
        program: Program,
        receive: Receive,
        pass_: Pass = lambda: None,
        sink: FileSink | None = None,
        ended: Ended = lambda: None,
    ) -> Ending:
        try:
            return await self._supervisor.run(program, receive, pass_, sink, ended)
        except SandboxFault:
            if await self._was_out_of_memory():
                return Ending(Outcome.OUT_OF_MEMORY, exit_code=128 + KILLED, signal=KILLED)
            raise

    async def destroy(self) -> None:
        self._supervisor.close()
        await self._launcher.remove(self.id, LEAVE_SECONDS)

    async def _was_out_of_memory(self) -> bool:
        """Ask the engine: a program may make the kernel choose the supervisor, which then cannot tell."""
        asking = asyncio.create_task(self._ask_whether_out_of_memory())
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # The sandbox had ended before its time was up or somebody cancelled it, so why it ended is the answer.
            if await asking:
                return True
            raise

    async def _ask_whether_out_of_memory(self) -> bool:
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):  # the caller waits for its result meanwhile
                for pause in PAUSES_SECONDS:
                    await asyncio.sleep(pause)
                    if (await self._launcher.fate(self.id))["out_of_memory"]:
                        return True
        except (OrchestratorError, TimeoutError):
            pass
        return False
