"""The Docker engine as the service sees it. What needs the engine's socket is done by the launcher, in another process;
here are the sandboxes' leashes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from orchestrator.domain.errors import OrchestratorError, SandboxFault
from orchestrator.domain.sandbox import Finding, OwnedContainer, SandboxSpec, Verdict
from orchestrator.engines.docker.attach import AttachedLeash
from orchestrator.engines.docker.launcher_client import LauncherClient
from orchestrator.engines.docker.orders import Create
from orchestrator.engines.docker.sandbox import DockerSandbox
from orchestrator.engines.runner.relay import Accept
from orchestrator.engines.runner.session import SupervisorSession

READY_TIMEOUT_SECONDS = 20


class DockerEngine:
    """Sandboxes of one Docker daemon, made by the launcher."""

    def __init__(self, launcher: LauncherClient, epoch: str, on_close: Callable[[], Awaitable[None]]) -> None:
        self._launcher = launcher
        self._epoch = epoch
        self._on_close = on_close

    async def prepare(self) -> None:
        await self._launcher.check()

    async def create_sandbox(self, spec: SandboxSpec, accept: Accept) -> DockerSandbox:
        container_id, connection = await self._launcher.create(self._order(spec))
        try:
            supervisor = await self._ready_supervisor(container_id, connection, accept)
        except BaseException:
            with suppress(OrchestratorError):  # then the reaper removes it
                await asyncio.shield(self.remove(container_id))
            raise
        supervisor.prepare(spec.files)
        return DockerSandbox(container_id, supervisor, self._launcher)

    async def list_owned(self) -> Sequence[OwnedContainer]:
        return [
            OwnedContainer(
                id=item["id"],
                of_this_epoch=item["epoch"] == self._epoch,
                lifetime_seconds=item["lifetime_seconds"],
                tampered=item["tampered"],
            )
            for item in await self._launcher.list_owned()
        ]

    async def remove(self, container_id: str) -> None:
        """Return when the engine no longer knows the container."""
        await self._launcher.remove(container_id, patience_seconds=0)

    async def describe(self) -> Sequence[Finding]:
        try:
            looked = await self._launcher.look()
        except OrchestratorError as error:
            return [Finding("launcher", Verdict.FAILED, error.message, error.hint)]
        return [Finding(**{**finding, "verdict": Verdict(finding["verdict"])}) for finding in looked]

    async def close(self) -> None:
        await self._on_close()

    def _order(self, spec: SandboxSpec) -> Create:
        return Create(
            language=spec.recipe.language,
            epoch=self._epoch,
            execution_id=spec.execution_id,
            lifetime_seconds=spec.lifetime_seconds,
            memory_bytes=spec.limits.memory_bytes,
            cpus=float(spec.limits.cpus),
            max_processes=spec.limits.max_processes,
            workspace_bytes=spec.limits.workspace_bytes,
            scratch_bytes=spec.limits.scratch_bytes,
        )

    async def _ready_supervisor(
        self, container_id: str, connection: socket.socket, accept: Accept
    ) -> SupervisorSession:
        leash = AttachedLeash()
        supervisor = SupervisorSession(leash, container_id, accept)
        try:
            await leash.adopt(connection)
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                await supervisor.until_ready()
        except BaseException as error:
            supervisor.close()
            if isinstance(error, TimeoutError):
                raise SandboxFault(f"the runner was not ready after {READY_TIMEOUT_SECONDS} s") from error
            raise
        return supervisor
