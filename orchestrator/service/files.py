"""The files of executions, and what callers upload in advance: who may have which, and how much is kept."""

from __future__ import annotations

import asyncio
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
    TooManyUploads,
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
    UploadPlace,
    Why,
    charged,
    media_type_of,
    require_name,
)
from orchestrator.service.ports import Contents, FileIndex, Journal
from orchestrator.service.quota import Quota, Room

log = structlog.get_logger()

PIECE_BYTES = 256 * 1024
MAX_TOLD = 20
# An upload is held against the quota each time that so much of it has arrived, and at its end.
LOOK_EVERY_BYTES = 8 * 1024 * 1024
RETRY_AFTER_SECONDS = 5
# Contents that nothing names are looked for now and then, and at once when much was written: a program may leave files
# that are never kept, again and again, and they take room on the disk until then.
SWEPT_EVERY_SECONDS = 300.0
SWEPT_EVERY_BYTES = 256 * 1024 * 1024
RESTS_FOR_EACH_SECOND = 10  # for others need the journal, too
# What is newer is left alone, for clocks that are set while somebody writes.
SWEPT_AFTER_SECONDS = 5.0


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


FindInWorkspace = Callable[[Caller, str, str, str | None], Awaitable[StoredFile]]


class Files:
    def __init__(self, journal: Journal, index: FileIndex, contents: Contents, quota: Quota, rules: FileRules) -> None:
        self._journal = journal
        self._index = index
        self.contents = contents
        self._quota = quota
        self.rules = rules
        self._adding = asyncio.Lock()  # from the look at how many there are, so that no two take the last place
        self._fresh: Counter[str] = Counter()  # hashes of uploads that are in the store, but not yet in the index
        self._swept_at = -SWEPT_EVERY_SECONDS
        self._written_when_swept = 0
        self._rest_seconds = 0.0
        self._held: Counter[str] = Counter()
        self._held_for: dict[str, tuple[str, int]] = {}  # by execution: whose, and how much

    # --- what executions left ---

    async def of_execution(self, caller: Caller, execution_id: str) -> tuple[File, ...]:
        """Return what an execution left; one that the caller may not see is NotFound."""
        return (await self._visible(caller, execution_id)).files

    async def of_execution_named(self, caller: Caller, execution_id: str, name: str) -> StoredFile:
        """Return one file of an execution, or raise FileNotFound."""
        return StoredFile(_named_in(await self._visible(caller, execution_id), name), self.contents)

    async def delete(self, caller: Caller, execution_id: str, name: str | None = None) -> int:
        """Delete one file of an execution, or all of them; return how many."""
        await self._visible(caller, execution_id)
        count = await self._index.drop_files(execution_id, name)
        if name is not None and not count:
            raise FileNotFound(f"Execution {execution_id} has no file {name[:200]!r} that is still kept.")
        return count

    def room_for(self, caller: Caller) -> Room:
        return self._quota.room(caller.key_name)

    async def settle(self, room: Room, kept: Kept) -> Kept:
        """Return what of a program's files is kept, after its caller's quota was looked at."""
        if not kept.files or await room.grow_to(charged(kept.files)):
            return kept
        refused = tuple(LeftOut(file.name, Why.QUOTA, file.bytes) for file in kept.files)
        told = (*kept.left_out, *refused)[:MAX_TOLD]
        return Kept((), told, kept.left_out_count + len(refused))

    # --- uploads ---

    async def upload(
        self,
        caller: Caller,
        pieces: AsyncIterable[bytes],
        expected_sha256: str | None = None,
        announced_bytes: int = 0,
    ) -> Upload:
        """Take in content; what does not have the expected hash is DigestMismatch and leaves nothing."""
        writing, room, size, digest = self.contents.create(), self.room_for(caller), 0, None
        try:
            await self._require_place(caller, expected_sha256)
            # What cannot be kept costs no file its place: of a size that is known, all is asked for at once.
            await _require(room, announced_bytes)
            async for piece in pieces:
                size += len(piece)
                if size > self.rules.max_upload_bytes:
                    raise FileTooLarge(f"An upload must have at most {self.rules.max_upload_bytes} bytes.")
                await writing.write(piece)
                if size > room.bytes + LOOK_EVERY_BYTES:
                    await _require(room, size)
            await _require(room, size)
            digest, size = await writing.finish()
            self._fresh[digest] += 1
            if expected_sha256 is not None and digest != expected_sha256:
                raise DigestMismatch(f"What arrived has the SHA-256 {digest}, not {expected_sha256[:64]}.")
            upload = Upload(digest, size, time.time())
            async with self._adding:
                await self._require_place(caller, digest)
                await self._index.add_upload(caller.key_name, upload)
        finally:
            room.give_back()
            if digest is not None:
                count_down(self._fresh, digest)
            await writing.abandon()
        return upload

    async def uploads(self, caller: Caller, limit: int, before: UploadPlace | None = None) -> Sequence[Upload]:
        """Return a page of a caller's uploads, newest first, from the one on that follows a place."""
        return await self._index.uploads(caller.key_name, limit, before)

    async def _require_place(self, caller: Caller, digest: str | None) -> None:
        """Refuse an upload beyond the number that a caller may have; one that is sent again takes no other place."""
        count, most = await self._index.count_uploads(caller.key_name), self.rules.max_uploads
        if count < most or (digest is not None and await self._index.upload(caller.key_name, digest) is not None):
            return
        raise TooManyUploads(f"You have {count} uploads; at most {most} are kept.")

    async def uploaded(self, caller: Caller, digest: str) -> Upload:
        """Return an upload of the caller's own, or raise FileNotFound."""
        found = await self._index.upload(caller.key_name, digest)
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
        """Find each input, within the limits. What came with the request is held, if it is not yet, until `let_go`."""
        limits = self.rules.inputs
        if len(wanted) > limits.max_files:
            raise InvalidRequest(f"`files` must have at most {limits.max_files} entries; it has {len(wanted)}.")
        require_no_file_as_a_folder(wanted)
        executions = {source.execution_id for source in wanted.values() if isinstance(source, FromExecution)}
        records = {each: await self._visible(caller, each) for each in executions}  # once, however many files they give
        found = [
            await self._find(caller, require_name(name), source, records, find_in_workspace)
            for name, source in wanted.items()
        ]
        total = sum(each.file.bytes for each in found)
        if total > limits.max_total_bytes:
            raise FileTooLarge(f"`files` must have at most {limits.max_total_bytes} bytes together; they have {total}.")
        self.hold(caller, execution_id, wanted)
        return tuple(found)

    def hold(self, caller: Caller, execution_id: str, wanted: Mapping[str, Source]) -> None:
        """Count what came with a request until `let_go`, or refuse it."""
        owner, limits = caller.key_name, self.rules.held_bytes
        size = sum(len(source.content) for source in wanted.values() if isinstance(source, Given))
        if not size or execution_id in self._held_for:
            return
        if self._held[owner] + size > limits.per_caller or self._held.total() + size > limits.total:
            message = "Too many files that came with requests wait for their programs."
            raise IntakeFull(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        self._held[owner] += size
        self._held_for[execution_id] = owner, size

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

    @property
    def need_sweeping(self) -> bool:
        """Whether it is time to look for what is old and what nothing names."""
        written = self.contents.written_bytes - self._written_when_swept
        seconds = time.monotonic() - self._swept_at
        return seconds >= SWEPT_EVERY_SECONDS or (written >= SWEPT_EVERY_BYTES and seconds >= self._rest_seconds)

    async def remove_what_is_old(self, in_use: Callable[[], frozenset[str]]) -> None:
        """Forget what has been kept long enough, and remove contents that nothing names and nobody uses."""
        began, started, written = time.time(), time.monotonic(), self.contents.written_bytes
        before = began - self.rules.ttl_seconds
        dropped = await self._index.drop_files_before(before) + await self._index.drop_uploads_before(before)
        # Who uses them is asked before and after: a content may get its name, and its user let go of it, meanwhile.
        used = in_use() | self._fresh.keys()
        wanted = await self._index.wanted()
        used |= in_use() | self._fresh.keys()
        freed = await self.contents.sweep(wanted | used, time.time() - began + SWEPT_AFTER_SECONDS)
        self._swept_at, self._written_when_swept = time.monotonic(), written
        self._rest_seconds = RESTS_FOR_EACH_SECOND * (self._swept_at - started)
        if dropped or freed:
            log.info("files.removed", dropped=dropped, freed_bytes=freed)

    async def _visible(self, caller: Caller, execution_id: str) -> ExecutionRecord:
        record = await self._journal.find(execution_id)
        if record is None or not caller.may_see(record.caller):
            raise NotFound(f"There is no execution {execution_id}.")
        return record

    async def _find(
        self,
        caller: Caller,
        name: str,
        source: Source,
        records: Mapping[str, ExecutionRecord],
        find_in_workspace: FindInWorkspace,
    ) -> Brought:
        match source:
            case Given(content):
                digest = sha256(content).hexdigest()
                return Brought(name, File(name, len(content), digest, media_type_of(name)), content)
            case FromExecution(execution_id, wanted):
                stored = StoredFile(_named_in(records[execution_id], wanted), self.contents)
            case FromWorkspace(workspace, wanted, version):
                stored = await find_in_workspace(caller, workspace, wanted, version)
            case FromUpload(digest):
                if not SHA256.fullmatch(digest):
                    raise InvalidRequest(f"`sha256` of {name!r} must be 64 hexadecimal digits in lower case.")
                upload = await self.uploaded(caller, digest)
                stored = StoredFile(File(name, upload.bytes, digest, media_type_of(name)), self.contents)
        return Brought(name, replace(stored.file, name=name))


def _named_in(record: ExecutionRecord, name: str) -> File:
    found = next((file for file in record.files if file.name == name), None)
    if found is None:
        raise FileNotFound(f"Execution {record.id} has no file {name[:200]!r} that is still kept.")
    return found


async def _require(room: Room, size: int) -> None:
    """Refuse an upload for which the caller's quota has no room."""
    if not await room.grow_to(LEAST_BYTES + size):
        raise QuotaExceeded("There is no room for this upload, not even without the files of your executions.")


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
