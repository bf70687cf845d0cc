"""An engine in memory, for the service's unit tests; the contract suite keeps it honest against the real one.

It knows just the programs below. Faults are switched on by the test that wants them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from orchestrator.domain.errors import EngineUnavailable, OrchestratorError, SandboxFault
from orchestrator.domain.execution import Check, Ending, Mistake, Outcome, Stream
from orchestrator.domain.files import FileLimits, Place, Why
from orchestrator.domain.sandbox import GATEWAY, Finding, OwnedContainer, Program, SandboxSpec, Verdict
from orchestrator.service.ports import Accept, Ended, FileSink, Pass

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
LEAVE_A_FILE = "open('/workspace/out/left.txt', 'w').write('left')"
LEAVE_A_FILE_THEN_FAIL = f"{LEAVE_A_FILE}\nraise SystemExit(3)"
LEAVE_A_FILE_THEN_GO_ON = f"{LEAVE_A_FILE}\nprint('begun')\nwhile True: pass"
LEAVE_A_FILE_THEN_FLOOD = f"{LEAVE_A_FILE}\n{FLOOD}"
LEAVE_A_FILE_THEN_EAT_MEMORY = f"{LEAVE_A_FILE}\nprint(len(b'x' * 2 * 1024**3))"
LEAVE_A_FILE_THEN_IMPORT_NO_TOOL = f"{LEAVE_A_FILE}\n{IMPORT_NO_TOOL}"
LEAVE_MORE_THAN_FITS = (
    "import os\n"
    "for name, size in {'a': 10, 'b': 200, 'c': 95, 'd': 20}.items():\n"
    "    open(f'/workspace/out/{name}', 'wb').write(b'x' * size)\n"
    "os.symlink('/etc/passwd', '/workspace/out/link')"
)
LEAVE_50_FILES = "for number in range(50): open(f'/workspace/out/{number:02}', 'w').close()"
COPY_THE_INPUTS = "import shutil\nshutil.copytree('/workspace/in', '/workspace/out', dirs_exist_ok=True)"
CHANGE_THE_WORKSPACE = (
    "import os\n"
    "os.chdir('/workspace/files')\n"
    "count = int(open('count').read()) + 1 if os.path.exists('count') else 1\n"
    "open('count', 'w').write(str(count))\n"
    "print(count)\n"
    "if os.path.exists('old'): os.remove('old')"
)

Receive = Callable[[Stream, bytes], None]
MAX_NAMED = 20
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
    files: dict[str, bytes] = field(default_factory=dict)  # below /workspace, besides those of its spec
    links: set[str] = field(default_factory=set)
    handing_over: bool = False
    _brought: dict[str, bytes] = field(default_factory=dict)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def destroy(self) -> None:
        self.destructions += 1
        await self.engine.remove(self.id)

    async def preload(self) -> None:
        self.preloads += 1

    async def bring(self, path: str, pieces: AsyncIterable[bytes]) -> None:
        assert self.runs == 0
        self.files[path] = b"".join([piece async for piece in pieces])
        if sum(map(len, self.files.values())) > self.spec.limits.workspace_bytes:
            raise SandboxFault(f"the runner failed: append: {path!r} does not fit into the room that the workspace has")
        self._brought[path] = self.files[path]

    def stop(self) -> None:
        if self.runs:
            self._stopped.set()

    async def run(
        self,
        program: Program,
        receive: Receive,
        pass_: Pass = lambda: None,
        sink: FileSink | None = None,
        ended: Ended = lambda: None,
    ) -> Ending:
        self.runs += 1
        self.engine.programs_run.append(program.code)
        ending = await self._execute(program, receive, pass_)
        ended()
        if sink is not None and not self.engine.loses_files:
            self.handing_over = True
            await self.engine.may_hand_over.wait()
            left_out = {place: await self._hand_over(place, each, sink) for place, each in program.hands_over.items()}
            await sink.close(left_out)
            self.handing_over = False
        return ending

    async def _hand_over(self, place: Place, bounds: FileLimits, sink: FileSink) -> int:
        taken = total = left_out = 0
        for path in sorted(path for path in {*self.files, *self.links} if path.startswith(f"{place}/")):
            name, content = path.partition("/")[2].encode(), self.files.get(path, b"")
            why = None
            if path in self.links:
                why = Why.NOT_A_FILE
            elif taken >= bounds.max_files:
                why = Why.TOO_MANY
            elif len(content) > bounds.max_file_bytes:
                why = Why.TOO_LARGE
            elif total + len(content) > bounds.max_total_bytes:
                why = Why.NO_ROOM
            if why is not None:
                left_out += 1
                if left_out <= MAX_NAMED:
                    await sink.leave_out(place, name, len(content), why)
                continue
            taken, total = taken + 1, total + len(content)
            if self._brought.get(path) == content:
                await sink.unchanged(place, name)
                continue
            await sink.begin(place, name, len(content))
            if content:
                await sink.write(content)
            await sink.end()
        return left_out

    async def _execute(self, program: Program, receive: Receive, pass_: Pass) -> Ending:
        if program.code.startswith(LEAVE_A_FILE):
            self.files["out/left.txt"] = b"left"
        match program.code:
            case code if code == HELLO:
                receive(Stream.STDOUT, b"hello\n")
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == EXIT_3:
                receive(Stream.STDOUT, b"out\n")
                receive(Stream.STDERR, b"err\n")
                return Ending(Outcome.FAILED, exit_code=3)
            case code if code in (FOREVER, LEAVE_A_FILE_THEN_GO_ON):
                receive(Stream.STDOUT, b"begun\n")
                return await self._time_out_after(program.limits.timeout_seconds)
            case code if code == READ_WHAT_IS_GIVEN:
                text = f"{self.spec.files['given/file.txt']} {program.environment['GIVEN']}\n"
                receive(Stream.STDOUT, text.encode())
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code in (FLOOD, LEAVE_A_FILE_THEN_FLOOD):
                receive(Stream.STDOUT, b"x" * program.limits.max_output_bytes)
                return Ending(Outcome.OUTPUT_LIMIT, exit_code=137, signal=9, stdout_dropped_bytes=1)
            case code if code == PRINT_TOO_MUCH_THEN_EXIT_3:
                kept = program.limits.max_output_bytes
                receive(Stream.STDOUT, b"x" * kept)
                return Ending(Outcome.FAILED, exit_code=3, stdout_dropped_bytes=200_000 - kept)
            case code if code in (IMPORT_NO_TOOL, LEAVE_A_FILE_THEN_IMPORT_NO_TOOL):
                mistakes = (
                    Mistake(code.count("\n") + 1, 1, "There is no server `nowhere`. Did you mean `somewhere`?"),
                )
                if program.check is Check.STRICT:
                    return Ending(Outcome.REJECTED, mistakes=mistakes)
                return Ending(Outcome.FAILED, exit_code=1, mistakes=mistakes if program.is_checked else ())
            case code if code == LEAVE_A_FILE:
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == LEAVE_A_FILE_THEN_FAIL:
                return Ending(Outcome.FAILED, exit_code=3)
            case code if code == LEAVE_A_FILE_THEN_EAT_MEMORY:
                return Ending(Outcome.OUT_OF_MEMORY, exit_code=137, signal=9)
            case code if code == LEAVE_MORE_THAN_FITS:
                self.files |= {
                    f"out/{name}": b"x" * size for name, size in {"a": 10, "b": 200, "c": 95, "d": 20}.items()
                }
                self.links.add("out/link")
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == LEAVE_50_FILES:
                self.files |= {f"out/{number:02}": b"" for number in range(50)}
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == COPY_THE_INPUTS:
                inputs = {path: content for path, content in self.files.items() if path.startswith("in/")}
                self.files |= {f"out/{path.removeprefix('in/')}": content for path, content in inputs.items()}
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == CHANGE_THE_WORKSPACE:
                count = int(self.files.get("files/count", b"0")) + 1
                self.files["files/count"] = b"%d" % count
                self.files.pop("files/old", None)
                receive(Stream.STDOUT, b"%d\n" % count)
                return Ending(Outcome.COMPLETED, exit_code=0)
            case code if code == CALL_THE_GATEWAY:
                connection = _Connection()
                self.accept(self.id).connection_made(connection)
                receive(Stream.STDOUT, connection.written)
                return Ending(Outcome.COMPLETED, exit_code=0)
        raise SandboxFault(f"the fake engine knows no program {program.code!r}")

    async def _time_out_after(self, seconds: float) -> Ending:
        if self.engine.supervisor_hangs:
            await asyncio.Event().wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)
            return Ending(Outcome.CANCELLED, exit_code=137, signal=9)
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
        self.loses_files = False
        self.fault: OrchestratorError | None = None
        self.removal_fault: OrchestratorError | None = None
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.may_hand_over = asyncio.Event()
        self.may_hand_over.set()

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
