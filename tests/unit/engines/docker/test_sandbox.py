"""Why a sandbox ended whose supervisor can no longer say it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Outcome
from orchestrator.domain.sandbox import Program
from orchestrator.engines.docker import sandbox as sandbox_module
from orchestrator.engines.docker.sandbox import DockerSandbox
from tests.support.launcher import served
from tests.support.samples import limits

FIRST = "a" * 64
PROGRAM = Program("", limits())


class Slow:
    """A launcher that knows of a lack of memory, and takes long over removals."""

    def __init__(self) -> None:
        self.may_remove = threading.Event()

    def remove(self, order):
        self.may_remove.wait(30)
        return self.fate(order)

    def fate(self, order):
        return {"out_of_memory": order.container_id == FIRST}

    def close(self):
        pass


class Killed:
    """A supervisor that the kernel has ended."""

    async def bring(self, path, pieces):
        raise SandboxFault("the connection to it ended")

    async def run(self, program, receive, pass_, sink, ended):
        raise SandboxFault("the connection to it ended")

    def close(self):
        pass


class Asked:
    """A launcher that is asked for the fate of a sandbox, and tells it when it is let."""

    def __init__(self, *, out_of_memory: bool) -> None:
        self.may_tell, self.was_asked = asyncio.Event(), asyncio.Event()
        self.told = {"out_of_memory": out_of_memory}

    async def fate(self, container_id):
        self.was_asked.set()
        await self.may_tell.wait()
        return self.told

    async def remove(self, container_id, patience_seconds):
        return await self.fate(container_id)


async def test_a_lack_of_memory_is_told_however_long_removals_take(tmp_path):
    launcher = Slow()
    with served(launcher, tmp_path / "launcher.sock", max_calls=1) as client:
        destroying = asyncio.create_task(DockerSandbox("b" * 64, Killed(), client).destroy())
        try:
            ending = await DockerSandbox(FIRST, Killed(), client).run(PROGRAM, lambda stream, data: None)
            assert (ending.outcome, destroying.done()) == (Outcome.OUT_OF_MEMORY, False)
        finally:
            launcher.may_remove.set()
            await destroying


async def test_a_lack_of_memory_at_the_deadline_is_not_told_as_a_timeout():
    launcher = Asked(out_of_memory=True)
    sandbox = DockerSandbox(FIRST, Killed(), launcher)
    asyncio.get_running_loop().call_later(0.1, launcher.may_tell.set)
    async with asyncio.timeout(0.02) as clock:
        ending = await sandbox.run(PROGRAM, lambda stream, data: None)
    assert (ending.outcome, clock.expired()) == (Outcome.OUT_OF_MEMORY, True)


async def test_who_cancels_an_execution_whose_sandbox_did_not_lack_memory_is_obeyed(monkeypatch):
    monkeypatch.setattr(sandbox_module, "PAUSES_SECONDS", (0.0,))
    launcher = Asked(out_of_memory=False)
    running = asyncio.create_task(DockerSandbox(FIRST, Killed(), launcher).run(PROGRAM, lambda stream, data: None))
    await launcher.was_asked.wait()
    running.cancel()
    launcher.may_tell.set()
    await asyncio.wait((running,), timeout=10)
    assert running.cancelled()


async def test_a_sandbox_that_ended_otherwise_is_a_fault_of_ours(monkeypatch):
    monkeypatch.setattr(sandbox_module, "PAUSES_SECONDS", (0.0, 0.0))
    launcher = Asked(out_of_memory=False)
    launcher.may_tell.set()
    with pytest.raises(SandboxFault):
        await DockerSandbox(FIRST, Killed(), launcher).run(PROGRAM, lambda stream, data: None)


async def test_files_for_which_there_is_no_memory_are_named():
    launcher = Asked(out_of_memory=True)
    launcher.may_tell.set()
    with pytest.raises(SandboxFault, match="'in/large' does not fit into the sandbox's memory"):
        await DockerSandbox(FIRST, Killed(), launcher).bring("in/large", None)
