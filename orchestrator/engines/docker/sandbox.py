"""A sandbox on the Docker engine: one container in a borrowed slot."""

from __future__ import annotations

from orchestrator.domain.execution import Ending
from orchestrator.domain.sandbox import Program
from orchestrator.engines.docker.slots import SeeOff, Slot, Slots
from orchestrator.engines.runner.session import Receive, SupervisorSession


class DockerSandbox:
    def __init__(
        self, container_id: str, supervisor: SupervisorSession, slot: Slot, slots: Slots, see_off: SeeOff
    ) -> None:
        self.id = container_id
        self._supervisor = supervisor
        self._slot: Slot | None = slot
        self._slots = slots
        self._see_off = see_off

    @property
    def alive(self) -> bool:
        return self._supervisor.alive and self._slot is not None and self._slot.alive

    async def preload(self) -> None:
        await self._supervisor.preload()

    async def run(self, program: Program, receive: Receive) -> Ending:
        return await self._supervisor.run(program, receive)

    async def destroy(self) -> None:
        """Remove the container and give its slot back; one in which something may still live is not lent again."""
        slot, self._slot = self._slot, None
        self._supervisor.close()
        try:
            await self._see_off(self.id)
        except BaseException:
            if slot is not None:
                await self._slots.retire(slot)
            raise
        if slot is not None:
            self._slots.give_back(slot)
