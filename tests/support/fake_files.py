"""Files and workspaces in memory: whose they are is minded, how much there may be is what a test says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256 as hash_of
from typing import Any

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import (
    DigestMismatch,
    FileNotFound,
    FileTooLarge,
    NotFound,
    OrchestratorError,
    WorkspaceBusy,
    WorkspaceNotFound,
)
from orchestrator.domain.files import File, Upload, UploadPlace, Version, media_type_of
from orchestrator.service.files import Files, StoredFile
from orchestrator.service.running import RunningExecution
from orchestrator.service.workspaces import Workspaces
from tests.support.samples import execution


class FakeContents:
    """Each content once, by its hash."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.held: dict[str, bytes] = {}
        self.reads: list[tuple[int, int]] = []
        self.fail_after: int | None = None  # so many reads

    def put(self, name: str, content: bytes) -> File:
        file = File(name, len(content), hash_of(content).hexdigest(), media_type_of(name))
        self.held[file.sha256] = content
        return file

    async def read(self, sha256: str, start: int, length: int) -> bytes:
        self.reads.append((start, length))
        if self.fail_after is not None and len(self.reads) > self.fail_after:
            raise NotFound("The content is gone.")
        return self.held[sha256][start : start + length]

    def stored(self, file: File) -> StoredFile:
        contents: Any = self  # the faces only read
        return StoredFile(file, contents)


class FakeFiles(Files):
    def __init__(self, contents: FakeContents | None = None, *, max_upload_bytes: int = 1_000_000) -> None:
        self.contents = contents or FakeContents()
        self._max_upload_bytes = max_upload_bytes
        self.forget()

    def forget(self) -> None:
        self.left: dict[tuple[str, str], dict[str, File]] = {}  # by caller and execution
        self.sent: dict[str, dict[str, Upload]] = defaultdict(dict)
        self.broken_off = 0
        self.refusal: OrchestratorError | None = None  # of uploads

    def leave(self, caller: Caller, execution_id: str, files: Mapping[str, bytes]) -> tuple[File, ...]:
        """Pretend that an execution left files."""
        found = {name: self.contents.put(name, content) for name, content in files.items()}
        self.left[caller.key_name, execution_id] = found
        return tuple(found.values())

    async def of_execution(self, caller: Caller, execution_id: str) -> tuple[File, ...]:
        return tuple(self._of(caller, execution_id).values())

    async def of_execution_named(self, caller: Caller, execution_id: str, name: str) -> StoredFile:
        found = self._of(caller, execution_id)
        if name not in found:
            raise FileNotFound(f"The execution left no file {name}.")
        return self.contents.stored(found[name])

    async def delete(self, caller: Caller, execution_id: str, name: str | None = None) -> int:
        found = self._of(caller, execution_id)
        if name is None:
            count = len(found)
            found.clear()
            return count
        if name not in found:
            raise FileNotFound(f"The execution left no file {name}.")
        del found[name]
        return 1

    async def upload(
        self,
        caller: Caller,
        pieces: AsyncIterable[bytes],
        expected_sha256: str | None = None,
        announced_bytes: int = 0,
    ) -> Upload:
        if self.refusal is not None:
            raise self.refusal
        content = b""
        try:
            async for piece in pieces:
                content += piece
                if len(content) > self._max_upload_bytes:
                    raise FileTooLarge("The file is too large.")
        except BaseException:
            self.broken_off += 1
            raise
        file = self.contents.put("", content)
        if expected_sha256 not in (None, file.sha256):
            raise DigestMismatch(f"The content has the hash {file.sha256}.")
        return self.sent[caller.key_name].setdefault(file.sha256, Upload(file.sha256, file.bytes, 1.5))

    async def uploads(self, caller: Caller, limit: int, before: UploadPlace | None = None) -> Sequence[Upload]:
        newest_first = sorted(self.sent[caller.key_name].values(), key=lambda upload: upload.place, reverse=True)
        return [upload for upload in newest_first if before is None or upload.place < before][:limit]

    async def uploaded(self, caller: Caller, sha256: str) -> Upload:
        if sha256 not in self.sent[caller.key_name]:
            raise FileNotFound("You have sent no such file.")
        return self.sent[caller.key_name][sha256]

    async def delete_upload(self, caller: Caller, sha256: str) -> None:
        await self.uploaded(caller, sha256)
        del self.sent[caller.key_name][sha256]

    def _of(self, caller: Caller, execution_id: str) -> dict[str, File]:
        for (owner, each), files in self.left.items():
            if each == execution_id and caller.may_see(owner):
                return files
        raise NotFound(f"There is no execution {execution_id}.")


class FakeWorkspaces(Workspaces):
    def __init__(self, contents: FakeContents | None = None) -> None:
        self.contents = contents or FakeContents()
        self.forget()

    def forget(self) -> None:
        self.kept: dict[tuple[str, str], list[Version]] = {}  # by caller and name, newest first
        self.busy: set[str] = set()

    def keep(self, caller: Caller, name: str, execution_id: str, files: Mapping[str, bytes], at: float = 1) -> None:
        """Pretend that an execution left files in a workspace."""
        put = tuple(self.contents.put(each, content) for each, content in files.items())
        version = Version(name, execution_id, caller.key_name, at, put)
        self.kept.setdefault((caller.key_name, name), []).insert(0, version)

    async def newest(self, caller: Caller) -> Sequence[Version]:
        own = [versions[0] for (owner, _), versions in self.kept.items() if owner == caller.key_name]
        return sorted(own, key=lambda version: -version.made_at)

    async def versions(self, caller: Caller, name: str) -> Sequence[Version]:
        if (caller.key_name, name) not in self.kept:
            raise WorkspaceNotFound(f"You have no workspace {name}.")
        return self.kept[caller.key_name, name]

    async def file(self, caller: Caller, name: str, file: str, version: str | None = None) -> StoredFile:
        for each in await self.versions(caller, name):
            if version in (None, each.execution_id):
                for found in each.files:
                    if found.name == file:
                        return self.contents.stored(found)
                break
        raise FileNotFound(f"The workspace has no file {file}.")

    async def restore(self, caller: Caller, name: str, version: str) -> Version:
        self._require_idle(name)
        versions = list(await self.versions(caller, name))
        for each in versions:
            if each.execution_id == version:
                versions.remove(each)
                self.kept[caller.key_name, name] = [each, *versions]
                return each
        raise FileNotFound("The workspace has no such version.")

    async def delete(self, caller: Caller, name: str) -> int:
        self._require_idle(name)
        count = len(await self.versions(caller, name))
        del self.kept[caller.key_name, name]
        return count

    def _require_idle(self, name: str) -> None:
        if name in self.busy:
            raise WorkspaceBusy("An execution has the workspace.")


class FakeExecutions:
    """Notes what it is asked to run, and refuses it or says that it has ended already."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.asked: list[Any] = []
        self.refusal: OrchestratorError | None = None
        self.result: Any = None

    def recording_refusal(self, caller: Caller, execution_id: str) -> Any:
        return AsyncExitStack()

    async def start(self, caller: Caller, request: Any, execution_id: str) -> Any:
        self.asked.append(request)
        if self.refusal is not None:
            raise self.refusal
        return RunningExecution.ended(execution(id=execution_id, caller=caller), self.result)
