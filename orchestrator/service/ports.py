"""What the service needs from the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from orchestrator.domain.access import AccessBook, Caller, Role
from orchestrator.domain.execution import (
    Ending,
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Image,
    Language,
    Page,
    Recipe,
    Refusal,
    State,
    Stream,
)
from orchestrator.domain.ledger import ToolCall
from orchestrator.domain.sandbox import OwnedContainer, Program, SandboxSpec

Receive = Callable[[Stream, bytes], None]


class Slot(Protocol):
    """A prepared network namespace; sandboxes come and go in it, one at a time."""

    @property
    def id(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    def disconnect(self) -> None:
        """End what the last sandbox left open."""

    async def destroy(self) -> None: ...


class Sandbox(Protocol):
    """One container, used once."""

    @property
    def id(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    async def preload(self) -> None:
        """Let the interpreter load what programs often need, while nobody waits."""

    async def run(self, program: Program, receive: Receive) -> Ending: ...

    async def destroy(self) -> None: ...


class Engine(Protocol):
    """Creates and destroys containers."""

    async def prepare(self) -> None:
        """Check the engine and the runner image and ensure the network; raises what is wrong."""

    async def create_slot(self) -> Slot: ...

    async def create_sandbox(self, spec: SandboxSpec, slot: Slot) -> Sandbox: ...

    async def list_owned(self) -> Sequence[OwnedContainer]: ...

    async def remove(self, container_id: str) -> None: ...


class Journal(Protocol):
    """The durable record of executions. Every method raises JournalUnavailable when it cannot write."""

    async def open(self, execution: Execution, state: State) -> None: ...

    async def mark_running(self, execution_id: str) -> None: ...

    async def finish(self, result: ExecutionResult) -> None: ...

    async def refuse(self, refusal: Refusal) -> None: ...

    async def mark_interrupted(self) -> int: ...

    async def find(self, execution_id: str) -> ExecutionRecord | None: ...

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None: ...

    async def newest(self, *, caller: str | None, limit: int, before: int | None) -> Sequence[ExecutionRecord]: ...

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None: ...

    async def check(self) -> None: ...


class Grant(Protocol):
    """What lets a running program call tools, and what it did with it."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    def calls(self) -> tuple[ToolCall, ...]: ...

    def images(self) -> tuple[Image, ...]: ...

    def revoke(self) -> None: ...


class Gateway(Protocol):
    """The only thing that a sandbox can reach."""

    def open(self, caller: Caller, execution_id: str, slot_id: str, notify: Callable[[ToolCall], None]) -> Grant: ...


class Workspaces(Protocol):
    """What a role's sandboxes find in /workspace: the wrappers of the tools that the role may call."""

    def for_role(self, role: Role, language: Language) -> tuple[Recipe, Mapping[str, str]]: ...


class Access(Protocol):
    @property
    def book(self) -> AccessBook: ...
