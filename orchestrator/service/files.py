"""The files of executions, and what callers upload in advance: who may have which, and how much is kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import structlog

from orchestrator.domain.access import Caller
from orchestrator.domain.counts import count_down
from orchestrator.domain.errors import (
    DigestMismatch,
    FileNotFound,
    FileTooLarge,
    IntakeFull,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
)
from orchestrator.domain.execution import ExecutionRecord, FileRules
from orchestrator.domain.files import (
    LEAST_BYTES,
    SHA256,
    Brought,
    File,
    FromExecution,
    FromUpload,
    FromWorkspace,
    Given,
    Kept,
    LeftOut,
    Source,
    Upload,
    Why,
    charged,
    media_type_of,
    require_name,
)
from orchestrator.service.ports import Contents, FileIndex, Journal
from orchestrator.service.quota import Quota

log = structlog.get_logger()

PIECE_BYTES = 256 * 1024
MAX_TOLD = 20
# An upload is held against the quota each time that so much of it has arrived, and at its end.
LOOK_EVERY_BYTES = 8 * 1024 * 1024
RETRY_AFTER_SECONDS = 5
# Longer than it takes from the writing of a content until something names it.
SWEPT_AFTER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that somebody may read."""

    file: File
    _contents: Contents

    async def read(self, start: int, length: int) -> bytes:
        return await self._contents.read(self.file.sha256, start, length)

    async def pieces(self, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield a range of it, piece by piece."""
        end = self.file.bytes if length is None else min(self.file.bytes, start + length)
        while start < end:
            piece = await self.read(start, min(PIECE_BYTES, end - start))
            if not piece:
                raise FileNotFound(f"{self.file.name} is damaged: it ends after {start} of {self.file.bytes} bytes.")
            start += len(piece)
            yield piece


FindInWorkspace = Callable[[Caller, str, str], Awaitable[StoredFile]]


class Files:
    def __init__(self, journal: Journal, index: FileIndex, contents: Contents, quota: Quota, rules: FileRules) -> None:
        self._journal = journal
        self._index = index
        self.contents = contents
        self._quota = quota
        self.rules = rules
        self._uploading: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._held_for: dict[str, tuple[str, int]] = {}  # by execution: whose, and how much

    # --- what executions left ---

    async def of_execution(self, caller: Caller, execution_id: str) -> tuple[File, ...]:
        """Return what an execution left; one that the caller may not see is NotFound."""
        return (await self._visible(caller, execution_id)).files

    async def of_execution_named(self, caller: Caller, execution_id: str, name: str) -> StoredFile:
        """Return one file of an execution, or raise FileNotFound."""
        record = await self._visible(caller, execution_id)
        found = next((file for file in record.files if file.name == name), None)
        if found is None:
            raise FileNotFound(f"Execution {execution_id} has no file {name[:200]!r} that is still kept.")
        return StoredFile(found, self.contents)

    async def delete(self, caller: Caller, execution_id: str, name: str | None = None) -> int:
        """Delete one file of an execution, or all of them; return how many."""
        await self._visible(caller, execution_id)
        count = await self._index.drop_files(execution_id, name)
        if name is not None and not count:
            raise FileNotFound(f"Execution {execution_id} has no file {name[:200]!r} that is still kept.")
        return count

    async def settle(self, caller: Caller, kept: Kept) -> Kept:
        """Return what of a program's files is kept, after its caller's quota was looked at."""
        if not kept.files or await self._quota.make_room(caller.key_name, charged(kept.files)):
            return kept
        refused = tuple(LeftOut(file.name, Why.QUOTA, file.bytes) for file in kept.files)
        told = (*kept.left_out, *refused)[:MAX_TOLD]
        return Kept((), told, kept.left_out_count + len(refused))

    # --- uploads ---

    async def upload(self, caller: Caller, pieces: AsyncIterable[bytes], expected_sha256: str | None = None) -> Upload:
        """Take in content; what does not have the expected hash is DigestMismatch and leaves nothing."""
        owner = caller.key_name
        writing, size, looked_at = self.contents.create(), 0, 0
        self._uploading[owner] += LEAST_BYTES
        try:
            async for piece in pieces:
                size += len(piece)
                self._uploading[owner] += len(piece)
                if size > self.rules.max_upload_bytes:
                    raise FileTooLarge(f"An upload must have at most {self.rules.max_upload_bytes} bytes.")
                await writing.write(piece)
                if size > looked_at + LOOK_EVERY_BYTES:
                    await self._require_room(owner)
                    looked_at = size
            await self._require_room(owner)
            digest, size = await writing.finish()
            if expected_sha256 is not None and digest != expected_sha256:
                raise DigestMismatch(f"What arrived has the SHA-256 {digest}, not {expected_sha256[:64]}.")
            upload = Upload(digest, size, time.time())
            await self._index.add_upload(owner, upload)
        finally:
            count_down(self._uploading, owner, LEAST_BYTES + size)
            await writing.abandon()
        return upload

    async def uploads(self, caller: Caller) -> Sequence[Upload]:
        return await self._index.uploads(caller.key_name)

    async def uploaded(self, caller: Caller, digest: str) -> Upload:
        """Return an upload of the caller's own, or raise FileNotFound."""
        found = next((each for each in await self.uploads(caller) if each.sha256 == digest), None)
        if found is None:
            raise FileNotFound(f"You have no upload {digest[:64]}.")
        return found

    async def delete_upload(self, caller: Caller, digest: str) -> None:
        if not await self._index.drop_upload(caller.key_name, digest):
            raise FileNotFound(f"You have no upload {digest[:64]}.")

    # --- inputs ---

    async def find_inputs(
        self, caller: Caller, execution_id: str, wanted: Mapping[str, Source], find_in_workspace: FindInWorkspace
    ) -> tuple[Brought, ...]:
        """Find each input, within the limits. What came with the request is held until `let_go`."""
        limits = self.rules.inputs
        if len(wanted) > limits.max_files:
            raise InvalidRequest(f"`files` must have at most {limits.max_files} entries; it has {len(wanted)}.")
        require_no_file_as_a_folder(wanted)
        found = [await self._find(caller, require_name(name), wanted[name], find_in_workspace) for name in wanted]
        total = sum(each.file.bytes for each in found)
        if total > limits.max_total_bytes:
            raise FileTooLarge(f"`files` must have at most {limits.max_total_bytes} bytes together; they have {total}.")
        self._hold(caller.key_name, execution_id, sum(len(each.content or b"") for each in found))
        return tuple(found)

    def let_go(self, execution_id: str) -> None:
        """Give back what was held for an execution; doing it twice does no harm."""
        owner, size = self._held_for.pop(execution_id, ("", 0))
        if size:
            count_down(self._held, owner, size)

    def content_of(self, brought: Brought) -> AsyncIterator[bytes]:
        if brought.content is not None:
            return _cut(brought.content)
        return StoredFile(brought.file, self.contents).pieces()

    # --- keeping house ---

    async def remove_what_is_old(self, in_use: Callable[[], frozenset[str]]) -> None:
        """Forget what has been kept long enough, and remove contents that nothing names and nobody uses."""
        before = time.time() - self.rules.ttl_seconds
        dropped = await self._index.drop_files_before(before) + await self._index.drop_uploads_before(before)
        wanted = await self._index.wanted()
        freed = await self.contents.sweep(wanted | in_use(), SWEPT_AFTER_SECONDS)
        if dropped or freed:
            log.info("files.removed", dropped=dropped, freed_bytes=freed)

    async def _require_room(self, owner: str) -> None:
        """Refuse an upload for which, with the others under way, the caller's quota has no room."""
        if not await self._quota.make_room(owner, self._uploading[owner]):
            raise QuotaExceeded("Your files, uploads and workspaces leave no room for this upload.")

    async def _visible(self, caller: Caller, execution_id: str) -> ExecutionRecord:
        record = await self._journal.find(execution_id)
        if record is None or not caller.may_see(record.caller):
            raise NotFound(f"There is no execution {execution_id}.")
        return record

    async def _find(self, caller: Caller, name: str, source: Source, find_in_workspace: FindInWorkspace) -> Brought:
        match source:
            case Given(content):
                digest = sha256(content).hexdigest()
                return Brought(name, File(name, len(content), digest, media_type_of(name)), content)
            case FromExecution(execution_id, wanted):
                stored = await self.of_execution_named(caller, execution_id, wanted)
            case FromWorkspace(workspace, wanted):
                stored = await find_in_workspace(caller, workspace, wanted)
            case FromUpload(digest):
                if not SHA256.fullmatch(digest):
                    raise InvalidRequest(f"`sha256` of {name!r} must be 64 hexadecimal digits in lower case.")
                upload = await self.uploaded(caller, digest)
                stored = StoredFile(File(name, upload.bytes, digest, media_type_of(name)), self.contents)
        return Brought(name, replace(stored.file, name=name))

    def _hold(self, owner: str, execution_id: str, size: int) -> None:
        limits = self.rules.held_bytes
        if self._held[owner] + size > limits.per_caller or self._held.total() + size > limits.total:
            message = "Too many files that came with requests wait for their programs."
            raise IntakeFull(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        if size:
            self._held[owner] += size
            self._held_for[execution_id] = owner, size


def require_no_file_as_a_folder(names: Iterable[str]) -> None:
    """Refuse `a` beside `a/b`: one of them could not be written."""
    files = set(names)
    for name in files:
        parts = name.split("/")
        for end in range(1, len(parts)):
            if (folder := "/".join(parts[:end])) in files:
                raise InvalidRequest(f"`files` must not have {folder!r} both as a file and as a folder.")


async def _cut(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]
