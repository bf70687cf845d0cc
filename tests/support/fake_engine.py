"""An engine in memory, for the service's unit tests; the contract suite keeps it honest against the real one.

It knows just the programs below. Faults are switched on by the test that wants them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from orchestrator.domain.errors import EngineUnavailable, OrchestratorError, SandboxFault
from orchestrator.domain.execution import Ending, Outcome, Stream
from orchestrator.domain.sandbox import Kind, OwnedContainer, Program, SandboxSpec

HELLO = "print('hello')"
EXIT_3 = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
FOREVER = "print('begun')\nwhile True: pass"

Receive = Callable[[Stream, bytes], None]
_ids = count(1)


@dataclass
class FakeContainer:
    engine: FakeEngine
    kind: Kind
    id: str = field(default_factory=lambda: f"container-{next(_ids)}")
    alive: bool = True
    destructions: int = 0

    def disconnect(self) -> None:
        pass

    async def destroy(self) -> None:
        self.destructions += 1
        await self.engine.remove(self.id)


@dataclass
class FakeSandbox(FakeContainer):
    slot_id: str = ""
    runs: int = 0
    preloads: int = 0

    async def preload(self) -> None:
        self.preloads += 1

    async def run(self, program: Program, receive: Receive) -> Ending:
        self.runs += 1
        self.engine.programs_run.append(program.code)
        match program.code:
            case code if code == HELLO:
                receive(Stream.STDOUT, b"hello\n")
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == EXIT_3:
                receive(Stream.STDOUT, b"out\n")
                receive(Stream.STDERR, b"err\n")
                return Ending(Outcome.FAILED, exit_code=3)
            case code if code == FOREVER:
                receive(Stream.STDOUT, b"begun\n")
                return await self._time_out_after(program.limits.timeout_seconds)
        raise SandboxFault(f"the fake engine knows no program {program.code!r}")

    async def _time_out_after(self, seconds: float) -> Ending:
        if self.engine.supervisor_hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(seconds)
        return Ending(Outcome.TIMED_OUT, exit_code=137, signal=9)


class FakeEngine:
    def __init__(self) -> None:
        self.containers: dict[str, FakeContainer] = {}
        self.orphans: list[OwnedContainer] = []
        self.made: list[FakeContainer] = []
        self.programs_run: list[str] = []
        self.removed: list[str] = []
        self.supervisor_hangs = False
        self.fault: OrchestratorError | None = None
        self.removal_fault: OrchestratorError | None = None
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def prepare(self) -> None:
        self._raise_fault()

    async def create_slot(self) -> FakeContainer:
        self._raise_fault()
        return self._add(FakeContainer(self, Kind.SLOT))

    async def create_sandbox(self, spec: SandboxSpec, slot: FakeContainer) -> FakeSandbox:
        self._raise_fault()
        await self.may_start.wait()
        in_slot = [c for c in self.sandboxes if c.slot_id == slot.id]
        assert not in_slot, "a slot holds one sandbox at a time"
        sandbox = FakeSandbox(self, Kind.SANDBOX, slot_id=slot.id)
        self._add(sandbox)
        return sandbox

    async def list_owned(self) -> Sequence[OwnedContainer]:
        self._raise_fault()
        ours = [OwnedContainer(c.id, c.kind, of_this_epoch=True) for c in self.containers.values()]
        return [*ours, *self.orphans]

    async def remove(self, container_id: str) -> None:
        if self.removal_fault is not None:
            raise self.removal_fault
        self.removed.append(container_id)
        container = self.containers.pop(container_id, None)
        if container is not None:
            container.alive = False
        self.orphans = [orphan for orphan in self.orphans if orphan.id != container_id]

    @property
    def sandboxes(self) -> list[FakeSandbox]:
        return [c for c in self.containers.values() if isinstance(c, FakeSandbox)]

    def go_down(self) -> None:
        self.fault = EngineUnavailable("The container engine does not answer (test).")

    def _add(self, container: FakeContainer) -> FakeContainer:
        self.containers[container.id] = container
        self.made.append(container)
        return container

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise self.fault
