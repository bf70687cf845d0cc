"""Files in memory, for the service's unit tests; the contract suites keep them honest against disk and SQLite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from orchestrator.domain.errors import FileNotFound, StoreUnavailable
from orchestrator.domain.execution import FileRules, Shares
from orchestrator.domain.files import LEAST_BYTES, File, FileLimits, Upload, UploadPlace, Version, charged
from orchestrator.service.files import Files
from orchestrator.service.quota import Quota
from orchestrator.service.workspaces import Workspaces
from tests.support.fake_journal import FakeJournal

MEBIBYTE = 1024 * 1024
RULES = FileRules(
    inputs=FileLimits(8, MEBIBYTE, 2 * MEBIBYTE),
    outputs=FileLimits(8, MEBIBYTE, 2 * MEBIBYTE),
    workspace=FileLimits(20, MEBIBYTE, 2 * MEBIBYTE),
    max_upload_bytes=MEBIBYTE,
    max_uploads=4,
    ttl_seconds=3600,
    held_bytes=Shares(2 * MEBIBYTE, MEBIBYTE),
)


STORED = Shares(64 * MEBIBYTE, 8 * MEBIBYTE)


class FakeContents:
    def __init__(self) -> None:
        self.stored: dict[str, tuple[bytes, float]] = {}
        self.under_way = 0
        self.full = False
        self.written_bytes = 0

    def create(self) -> FakeWriting:
        return FakeWriting(self)

    async def size(self, digest: str) -> int | None:
        return len(self.stored[digest][0]) if digest in self.stored else None

    async def read(self, digest: str, start: int, length: int) -> bytes:
        if digest not in self.stored:
            raise FileNotFound("The content of this file is no longer there.")
        return self.stored[digest][0][start : start + length]

    async def sweep(self, wanted: frozenset[str], older_than_seconds: float) -> int:
        before = time.time() - older_than_seconds
        gone = [digest for digest, (_, at) in self.stored.items() if digest not in wanted and at < before]
        return sum(len(self.stored.pop(digest)[0]) for digest in gone)

    def add(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        self.stored[digest] = content, time.time()
        return digest


class FakeWriting:
    def __init__(self, contents: FakeContents) -> None:
        self._contents = contents
        self._data = b""
        self._open = True
        contents.under_way += 1

    async def write(self, data: bytes) -> None:
        if self._contents.full:
            raise StoreUnavailable("Files cannot be kept: disk full (test).")
        self._data += data

    async def finish(self) -> tuple[str, int]:
        await self.abandon()
        self._contents.written_bytes += len(self._data)
        return self._contents.add(self._data), len(self._data)

    async def abandon(self) -> None:
        self._contents.under_way -= self._open
        self._open = False


class FakeFileIndex:
    """The files of executions are in their records, as the journal in memory has them."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal
        self._uploads: dict[tuple[str, str], Upload] = {}
        self._versions: dict[tuple[str, str], list[Version]] = {}  # the newest first

    async def files_of(self, execution_id: str) -> tuple[File, ...]:
        record = self._journal.records.get(execution_id)
        return record.files if record else ()

    async def drop_files(self, execution_id: str, name: str | None = None) -> int:
        before = await self.files_of(execution_id)
        left = tuple(file for file in before if name not in (None, file.name))
        if before:
            self._journal.records[execution_id] = replace(self._journal.records[execution_id], files=left)
        return len(before) - len(left)

    async def drop_files_before(self, moment: float) -> int:
        old = [each.id for each in self._journal.records.values() if (each.finished_at or moment) < moment]
        return sum([await self.drop_files(id) for id in old])

    async def drop_oldest_files(self, caller: str, at_least_bytes: int) -> int:
        own = [record.files for record in self._journal.records.values() if record.caller == caller]
        freed = 0
        if sum(map(charged, own)) < at_least_bytes:
            return 0
        for record in sorted(self._journal.records.values(), key=lambda each: each.finished_at or 0):
            if record.caller == caller and freed < at_least_bytes:
                freed += charged(record.files)
                await self.drop_files(record.id)
        return freed

    async def stored_bytes(self, caller: str | None = None) -> int:
        files = [record.files for record in self._journal.records.values() if caller in (None, record.caller)]
        uploads = [upload.bytes for (owner, _), upload in self._uploads.items() if caller in (None, owner)]
        versions = [each for found in self._versions.values() for each in found if caller in (None, each.caller)]
        return (
            sum(map(charged, files))
            + sum(max(size, LEAST_BYTES) for size in uploads)
            + sum(charged(version.files) for version in versions)
        )

    async def add_upload(self, caller: str, upload: Upload) -> None:
        self._uploads[caller, upload.sha256] = upload

    async def upload(self, caller: str, sha256: str) -> Upload | None:
        return self._uploads.get((caller, sha256))

    async def uploads(self, caller: str, limit: int, before: UploadPlace | None = None) -> Sequence[Upload]:
        own = [upload for (owner, _), upload in self._uploads.items() if owner == caller]
        after = [upload for upload in own if before is None or upload.place < before]
        return sorted(after, key=lambda upload: upload.place, reverse=True)[:limit]

    async def count_uploads(self, caller: str) -> int:
        return sum(owner == caller for owner, _ in self._uploads)

    async def drop_upload(self, caller: str, sha256: str) -> bool:
        return self._uploads.pop((caller, sha256), None) is not None

    async def drop_uploads_before(self, moment: float) -> int:
        old = [key for key, upload in self._uploads.items() if upload.uploaded_at < moment]
        for key in old:
            del self._uploads[key]
        return len(old)

    async def add_version(self, owner: str, version: Version, keep: int) -> None:
        known = self._versions.get((owner, version.workspace), [])
        others = [each for each in known if each.execution_id != version.execution_id]
        # Once more at the end of the dictionary: the newest workspace is the one that was changed last.
        self._versions.pop((owner, version.workspace), None)
        self._versions[owner, version.workspace] = [version, *others][:keep]

    async def versions(self, owner: str, workspace: str) -> Sequence[Version]:
        return list(self._versions.get((owner, workspace), []))

    async def newest_version(self, owner: str, workspace: str) -> Version | None:
        return next(iter(await self.versions(owner, workspace)), None)

    async def file_in_version(self, owner: str, workspace: str, name: str, execution_id: str | None) -> File | None:
        fitting = [each for each in await self.versions(owner, workspace) if execution_id in (None, each.execution_id)]
        return next((file for version in fitting[:1] for file in version.files if file.name == name), None)

    async def has_version(self, owner: str, workspace: str, execution_id: str) -> bool:
        return any(each.execution_id == execution_id for each in await self.versions(owner, workspace))

    async def count_workspaces(self, owner: str) -> int:
        return len(await self.newest_versions([owner]))

    async def newest_versions(self, owners: Sequence[str]) -> Sequence[tuple[str, Version]]:
        found = [(owner, versions[0]) for (owner, _), versions in self._versions.items() if owner in owners]
        return found[::-1]

    async def drop_workspace(self, owner: str, workspace: str) -> int:
        return len(self._versions.pop((owner, workspace), []))

    async def wanted(self) -> frozenset[str]:
        files = [file for record in self._journal.records.values() for file in record.files]
        files += [file for found in self._versions.values() for version in found for file in version.files]
        return frozenset([file.sha256 for file in files] + [digest for _, digest in self._uploads])


class FakeStorage:
    """All of it together, as the daemon puts it together."""

    def __init__(self, journal: FakeJournal, *, rules: FileRules = RULES, stored: Shares = STORED) -> None:
        self.contents = FakeContents()
        self.index = FakeFileIndex(journal)
        self.quota = Quota(self.index, stored)
        self.files = Files(journal, self.index, self.contents, self.quota, rules)
        self.workspaces = Workspaces(
            self.index,
            self.contents,
            self.quota,
            versions=3,
            max_workspaces_per_caller=4,
            limits=rules.workspace,
            max_waiting=5,
            max_waiting_per_caller=3,
        )
