"""What the service needs from the world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
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
from orchestrator.domain.files import File, Place, Upload, UploadPlace, Version, Why
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.sandbox import Finding, OwnedContainer, Program, SandboxSpec
from orchestrator.domain.sign_in import SignIn
from orchestrator.domain.skills import SkillUse, SkillVersion
from orchestrator.domain.statistics import Span, Statistics

Receive = Callable[[Stream, bytes], None]
# Called when the check of a program found nothing for which it would be rejected.
Pass = Callable[[], None]
# Called when the ending of a program is known, before what it left is handed over.
Ended = Callable[[], None]
# Given the id of a sandbox, a protocol for one connection that it makes to the gateway.
Accept = Callable[[str], asyncio.Protocol]


class FileSink(Protocol):
    """Takes what a program left, one file after the other. The sandbox is not read from while a call is under way."""

    async def begin(self, place: Place, name: bytes, size: int) -> None:
        """Take a file, whose content follows in pieces of `size` bytes in all."""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Note that the file is whole; one that is followed by anything else is lost."""

    async def unchanged(self, place: Place, name: bytes) -> None:
        """Take a file that is as it was brought."""

    async def leave_out(self, place: Place, name: bytes, size: int, why: Why) -> None: ...

    async def close(self, left_out: Mapping[Place, int]) -> None:
        """Note that all was handed over, and how many were left out, named or not."""


class Sandbox(Protocol):
    """One container, used once."""

    @property
    def id(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    async def preload(self) -> None:
        """Let the interpreter load what programs often need, while nobody waits."""

    async def bring(self, path: str, pieces: AsyncIterable[bytes]) -> None:
        """Write a file below /workspace before the program runs, no faster than the sandbox takes its pieces."""

    async def run(
        self,
        program: Program,
        receive: Receive,
        pass_: Pass = ...,
        sink: FileSink | None = None,
        ended: Ended = ...,
    ) -> Ending:
        """Run the program; return when it has ended and what it left in `program.hands_over` is with the sink."""

    @property
    def handing_over(self) -> bool:
        """Tell whether the program has ended, and `run` only waits for what it left, for a bounded time."""

    def stop(self) -> None:
        """End the program. `run` then returns, with the outcome `cancelled`, when what it left is with the sink."""

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

    async def open(
        self, record: ExecutionRecord, idempotency_key: str | None = None, program: str | None = None
    ) -> None:
        """Remember an execution that begins, or one that was refused. The key names the newest it was used for.

        A program is kept beside it, unless it is too large for that.
        """

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

    async def program(self, execution_id: str) -> str | None:
        """Return the program of an execution, None if it is not kept."""

    async def forget_programs_before(self, moment: float) -> None:
        """Keep only the hashes of programs that were accepted before a time."""

    async def statistics(self, span: Span) -> Statistics:
        """Count what happened; raise QuestionTooLarge if that takes too long."""

    async def check(self) -> None:
        """Raise what would keep an execution from being recorded."""


class SignInStore(Protocol):
    """Sessions of the console that outlast the daemon. Every method raises JournalUnavailable."""

    async def sign_ins(self) -> Sequence[SignIn]: ...

    async def add_sign_in(self, session: SignIn) -> None: ...

    async def drop_sign_in(self, token_sha256: str) -> None:
        """Forget a session; one that is not there does no harm."""


class SkillStore(Protocol):
    """The skills that were saved. Every method raises JournalUnavailable, and does its work wholly or not at all."""

    async def all(self) -> Sequence[SkillVersion]:
        """Return every version, the oldest first."""

    async def recording(self, version: str, author: str) -> bytes | None: ...

    async def save(self, saved: SkillVersion, recording: bytes | None) -> None:
        """Keep a version; its author's earlier drafts of that name, proven or not, are retired."""

    async def approve(self, approved: SkillVersion) -> None:
        """Make it the one of its name that is approved; another one is retired."""

    async def retire(self, version: str, author: str) -> None:
        """Take it out of use; its recording goes, as with everything that is retired."""

    async def change_proof(self, changed: SkillVersion, recording: bytes | None) -> None:
        """Keep what is known of a version now; without a recording, that stays as it is."""

    async def count_uses(self, uses: Sequence[SkillUse]) -> None: ...

    async def built_in_uses(self) -> Mapping[str, SkillUse]:
        """Return how often the built-in skills were used, by name."""


class Writing(Protocol):
    """Content on its way into the store."""

    async def write(self, data: bytes) -> None: ...

    async def finish(self) -> tuple[str, int]:
        """Keep it; return its hash and its size."""

    async def abandon(self) -> None:
        """Leave nothing of it; after `finish` this does nothing."""


class Contents(Protocol):
    """The bytes of files, each content once, named by its SHA-256. Raises StoreUnavailable when the disk fails."""

    def create(self) -> Writing: ...

    @property
    def written_bytes(self) -> int:
        """Return how much was added since the start, whatever became of it."""

    async def size(self, sha256: str) -> int | None:
        """Return the size of a content, None if it is not there."""

    async def read(self, sha256: str, start: int, length: int) -> bytes:
        """Return a piece; raise NotFound if the content is not there."""

    async def sweep(self, wanted: frozenset[str], older_than_seconds: float) -> int:
        """Remove what nobody wants and is not just being written; return how many bytes that gave."""


class FileIndex(Protocol):
    """Whose files there are. Every method raises JournalUnavailable when it cannot do its work."""

    async def files_of(self, execution_id: str) -> tuple[File, ...]: ...

    async def drop_files(self, execution_id: str, name: str | None = None) -> int:
        """Forget one file of an execution, or all; return how many there were."""

    async def drop_files_before(self, moment: float) -> int:
        """Forget the files of executions that ended before a time; return how many there were."""

    async def drop_oldest_files(self, caller: str, at_least_bytes: int) -> int:
        """Forget a caller's oldest files until so many bytes are free; return how many bytes that gave.

        If all of them together are not enough, none is forgotten.
        """

    async def stored_bytes(self, caller: str | None = None) -> int:
        """Return what a caller's files, uploads and versions of workspaces have together, or everybody's."""

    async def add_upload(self, caller: str, upload: Upload) -> None: ...

    async def upload(self, caller: str, sha256: str) -> Upload | None:
        """Return an upload of a caller, None if it has none of that hash."""

    async def uploads(self, caller: str, limit: int, before: UploadPlace | None = None) -> Sequence[Upload]:
        """Return a caller's uploads, newest first, from the one on that follows a place."""

    async def count_uploads(self, caller: str) -> int: ...

    async def drop_upload(self, caller: str, sha256: str) -> bool: ...

    async def drop_uploads_before(self, moment: float) -> int: ...

    async def add_version(self, owner: str, version: Version, keep: int) -> None:
        """Make it the newest of its workspace, and forget all but the newest `keep`."""

    async def versions(self, owner: str, workspace: str) -> Sequence[Version]:
        """Return what there is of a workspace, newest first."""

    async def newest_version(self, owner: str, workspace: str) -> Version | None: ...

    async def file_in_version(self, owner: str, workspace: str, name: str, execution_id: str | None) -> File | None:
        """Return one file of the newest version, or of the one that an execution made; None if it is not there."""

    async def has_version(self, owner: str, workspace: str, execution_id: str) -> bool: ...

    async def count_workspaces(self, owner: str) -> int: ...

    async def newest_versions(self, owners: Sequence[str]) -> Sequence[tuple[str, Version]]:
        """Return the owner and the newest version of each workspace, newest first."""

    async def drop_workspace(self, owner: str, workspace: str) -> int:
        """Forget a workspace; return how many versions it had."""

    async def wanted(self) -> frozenset[str]:
        """Return the hashes of all contents that anything names."""


class Access(Protocol):
    """Roles and keys as they stand now."""

    @property
    def book(self) -> AccessBook: ...
