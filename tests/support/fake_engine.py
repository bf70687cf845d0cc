"""An engine in memory, for the service's unit tests; the contract suite keeps it honest against the real one.

It knows just the programs below. Faults are switched on by the test that wants them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from orchestrator.domain.errors import EngineUnavailable, OrchestratorError, SandboxFault
from orchestrator.domain.execution import Check, Ending, Mistake, Outcome, Stream
from orchestrator.domain.sandbox import GATEWAY, Finding, OwnedContainer, Program, SandboxSpec, Verdict
from orchestrator.service.ports import Accept, Pass

HELLO = "print('hello')"
EXIT_3 = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
FOREVER = "print('begun')\nwhile True: pass"
READ_WHAT_IS_GIVEN = "import os\nprint(open('/workspace/given/file.txt').read(), os.environ['GIVEN'])"
FLOOD = "while True: print('x' * 1000)"
PRINT_TOO_MUCH_THEN_EXIT_3 = "import sys\nprint('x' * 199_999)\nsys.exit(3)"
IMPORT_NO_TOOL = "from servers.nowhere import nothing"
ONE_SERVER = {"servers/__init__.py": "", "servers/somewhere/__init__.py": "", "servers/_arguments.py": ""}
CALL_THE_GATEWAY = (
    "import socket\n"
    "with socket.socket(socket.AF_UNIX) as gateway:\n"
    f"    gateway.connect({GATEWAY!r}.replace('@', chr(0)))\n"
    "    print(gateway.makefile().read(), end='')"
)

Receive = Callable[[Stream, bytes], None]
_ids = count(1)


@dataclass
class FakeSandbox:
    engine: FakeEngine
    spec: SandboxSpec
    accept: Accept
    id: str = field(default_factory=lambda: f"container-{next(_ids)}")
    alive: bool = True
    destructions: int = 0
    runs: int = 0
    preloads: int = 0

    async def destroy(self) -> None:
        self.destructions += 1
        await self.engine.remove(self.id)

    async def preload(self) -> None:
        self.preloads += 1

    async def run(self, program: Program, receive: Receive, pass_: Pass = lambda: None) -> Ending:
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
            case code if code == READ_WHAT_IS_GIVEN:
                text = f"{self.spec.files['given/file.txt']} {program.environment['GIVEN']}\n"
                receive(Stream.STDOUT, text.encode())
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == FLOOD:
                receive(Stream.STDOUT, b"x" * program.limits.max_output_bytes)
                return Ending(Outcome.OUTPUT_LIMIT, exit_code=137, signal=9, stdout_dropped_bytes=1)
            case code if code == PRINT_TOO_MUCH_THEN_EXIT_3:
                kept = program.limits.max_output_bytes
                receive(Stream.STDOUT, b"x" * kept)
                return Ending(Outcome.FAILED, exit_code=3, stdout_dropped_bytes=200_000 - kept)
            case code if code == IMPORT_NO_TOOL:
                mistakes = (Mistake(1, 1, "There is no server `nowhere`. Did you mean `somewhere`?"),)
                if program.check is Check.STRICT:
                    return Ending(Outcome.REJECTED, mistakes=mistakes)
                return Ending(Outcome.FAILED, exit_code=1, mistakes=mistakes if program.is_checked else ())
            case code if code == CALL_THE_GATEWAY:
                connection = _Connection()
                self.accept(self.id).connection_made(connection)
                receive(Stream.STDOUT, connection.written)
                return Ending(Outcome.COMPLETED, exit_code=0)
        raise SandboxFault(f"the fake engine knows no program {program.code!r}")

    async def _time_out_after(self, seconds: float) -> Ending:
        if self.engine.supervisor_hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(seconds)
        return Ending(Outcome.TIMED_OUT, exit_code=137, signal=9)


class _Connection(asyncio.Transport):
    written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        pass


class FakeEngine:
    def __init__(self) -> None:
        self.containers: dict[str, FakeSandbox] = {}
        self.orphans: list[OwnedContainer] = []
        self.made: list[FakeSandbox] = []
        self.programs_run: list[str] = []
        self.starting = 0
        self.removed: list[str] = []
        self.supervisor_hangs = False
        self.fault: OrchestratorError | None = None
        self.removal_fault: OrchestratorError | None = None
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def prepare(self) -> None:
        self._raise_fault()

    async def create_sandbox(self, spec: SandboxSpec, accept: Accept) -> FakeSandbox:
        self._raise_fault()
        self.starting += 1
        try:
            await self.may_start.wait()
        finally:
            self.starting -= 1
        sandbox = FakeSandbox(self, spec, accept)
        self.containers[sandbox.id] = sandbox
        self.made.append(sandbox)
        return sandbox

    async def list_owned(self) -> Sequence[OwnedContainer]:
        self._raise_fault()
        ours = [OwnedContainer(c.id, of_this_epoch=True) for c in self.containers.values()]
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
        return list(self.containers.values())

    async def describe(self) -> Sequence[Finding]:
        return [Finding("engine", Verdict.OK, "in memory")]

    async def close(self) -> None:
        pass

    def go_down(self) -> None:
        self.fault = EngineUnavailable("The container engine does not answer (test).")

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise self.fault
