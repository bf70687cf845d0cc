"""What the service needs from the world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from orchestrator.domain.access import AccessBook
from orchestrator.domain.execution import (
    Ending,
    ExecutionRecord,
    ExecutionResult,
    Filter,
    Page,
    Stream,
    Unfinished,
)
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.sandbox import Finding, OwnedContainer, Program, SandboxSpec

Receive = Callable[[Stream, bytes], None]
# Called when the check of a program found nothing for which it would be rejected.
Pass = Callable[[], None]
# Given the id of a sandbox, a protocol for one connection that it makes to the gateway.
Accept = Callable[[str], asyncio.Protocol]


class Sandbox(Protocol):
    """One container, used once."""

    @property
    def id(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    async def preload(self) -> None:
        """Let the interpreter load what programs often need, while nobody waits."""

    async def run(self, program: Program, receive: Receive, pass_: Pass = ...) -> Ending: ...

    async def destroy(self) -> None:
        """Return when nothing of it is left; destroying it twice does no harm."""


class Engine(Protocol):
    """Creates and destroys sandboxes."""

    async def prepare(self) -> None:
        """Raise what would keep a sandbox from being made now, such as a missing image. It answers within seconds."""

    async def create_sandbox(self, spec: SandboxSpec, accept: Accept) -> Sandbox:
        """Start a sandbox that waits for its program; its connections to the gateway go to `accept`."""

    async def list_owned(self) -> Sequence[OwnedContainer]:
        """List what exists under this installation's name, of this start of the daemon and of earlier ones."""

    async def remove(self, container_id: str) -> None:
        """Remove one of them; an id that no longer exists does no harm."""

    async def describe(self) -> Sequence[Finding]:
        """Check everything that a sandbox needs of this engine; return each finding with its fix."""

    async def close(self) -> None: ...


class Journal(Protocol):
    """The durable record of executions. Every method raises JournalUnavailable when it cannot do its work."""

    @property
    def renewals(self) -> int:
        """How often another journal took the place of one that was lost; it knows nothing of what is under way."""

    async def open(self, record: ExecutionRecord, idempotency_key: str | None = None) -> None:
        """Remember an execution that begins, or one that was refused. The key names the newest it was used for."""

    async def mark_running(self, execution_id: str) -> None: ...

    async def record_calls(self, calls: Sequence[CallRecord]) -> None:
        """Remember calls as they stand, unless their execution has ended."""

    async def finish(self, result: ExecutionResult, idempotency_key: str | None = None) -> None:
        """Remember how an execution ended, also one whose beginning was lost; then the key is its own if it is free."""

    async def mark_interrupted(self, instance: str) -> int:
        """Mark what this instance had under way as interrupted; return how many there were."""

    async def take_over(self, instance: str, unfinished: Sequence[Unfinished]) -> None:
        """Remember what this instance has under way now; mark the rest of what it had as interrupted."""

    async def find(self, execution_id: str) -> ExecutionRecord | None: ...

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None: ...

    async def newest(self, wanted: Filter, limit: int) -> Sequence[ExecutionRecord]:
        """Return what fits, newest first, without tool calls."""

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None: ...

    async def check(self) -> None:
        """Raise what would keep an execution from being recorded."""


class Access(Protocol):
    """Roles and keys as they stand now."""

    @property
    def book(self) -> AccessBook: ...
