"""Whose files there are: those of executions, uploads, and versions of workspaces. Beside the executions, in SQLite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from orchestrator.domain.documents import to_document
from orchestrator.domain.files import LEAST_BYTES, OCTETS, File, Upload, UploadPlace, Version, charged
from orchestrator.journals.sqlite import SqliteJournal

STORED = """
SELECT coalesce(sum(bytes), 0) FROM (
    SELECT max(bytes, :least) AS bytes FROM files
    UNION ALL SELECT max(bytes, :least) FROM uploads
    UNION ALL SELECT bytes FROM workspace_versions
)
"""
# With conditions that an index serves.
STORED_OF_CALLER = """
SELECT coalesce(sum(bytes), 0) FROM (
    SELECT max(bytes, :least) AS bytes FROM files WHERE caller = :caller
    UNION ALL SELECT max(bytes, :least) FROM uploads WHERE caller = :caller
    UNION ALL SELECT bytes FROM workspace_versions WHERE caller = :caller
)
"""
OLDEST_FILES = """
SELECT execution_id, sum(max(bytes, ?2)) FROM files WHERE caller = ?1 GROUP BY execution_id ORDER BY min(kept_at)
"""
UPLOADS = """
SELECT sha256, bytes, uploaded_at FROM uploads
WHERE caller = :caller AND (:at IS NULL OR (uploaded_at, sha256) < (:at, :sha256))
ORDER BY uploaded_at DESC, sha256 DESC LIMIT :limit
"""
ADD_VERSION = """
INSERT OR REPLACE INTO workspace_versions (owner, workspace, execution_id, caller, made_at, bytes, files)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
DROP_OLD_VERSIONS = """
DELETE FROM workspace_versions WHERE owner = ?1 AND workspace = ?2 AND sequence NOT IN (
    SELECT sequence FROM workspace_versions WHERE owner = ?1 AND workspace = ?2 ORDER BY sequence DESC LIMIT ?3
)
"""
VERSIONS = "SELECT * FROM workspace_versions WHERE owner = :owner AND workspace = :workspace ORDER BY sequence DESC"
FILE_IN_VERSION = """
SELECT file.value FROM (
    SELECT files FROM workspace_versions
    WHERE owner = :owner AND workspace = :workspace AND (:version IS NULL OR execution_id = :version)
    ORDER BY sequence DESC LIMIT 1
) AS version, json_each(version.files) AS file WHERE file.value ->> 'name' = :name LIMIT 1
"""
# One after the other, so that nobody waits for all of them.
WANTED = (
    "SELECT sha256 FROM files",
    "SELECT sha256 FROM uploads",
    "SELECT file.value ->> 'sha256' FROM workspace_versions, json_each(workspace_versions.files) AS file",
)


class SqliteFileIndex:
    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    async def files_of(self, execution_id: str) -> tuple[File, ...]:
        query = "SELECT name, bytes, sha256, media_type FROM files WHERE execution_id = :id ORDER BY number"
        rows = await self._journal.read(query, {"id": execution_id})
        return tuple(File(**dict(row)) for row in rows)

    async def drop_files(self, execution_id: str, name: str | None = None) -> int:
        statement = "DELETE FROM files WHERE execution_id = ?1 AND (?2 IS NULL OR name = ?2)"
        return await self._change(statement, execution_id, name)

    async def drop_files_before(self, moment: float) -> int:
        return await self._change("DELETE FROM files WHERE kept_at < ?", moment)

    async def drop_oldest_files(self, caller: str, at_least_bytes: int) -> int:
        def drop(database: sqlite3.Connection) -> int:
            freed = 0
            with database:
                database.execute("BEGIN IMMEDIATE")
                oldest = database.execute(OLDEST_FILES, (caller, LEAST_BYTES)).fetchall()
                if sum(size for _, size in oldest) < at_least_bytes:
                    return 0
                for execution_id, size in oldest:
                    if freed >= at_least_bytes:
                        break
                    database.execute("DELETE FROM files WHERE execution_id = ?", (execution_id,))
                    freed += size
            return freed

        return await self._journal.run(drop)

    async def stored_bytes(self, caller: str | None = None) -> int:
        query = STORED if caller is None else STORED_OF_CALLER
        return int((await self._journal.read(query, {"least": LEAST_BYTES, "caller": caller}))[0][0])

    async def add_upload(self, caller: str, upload: Upload) -> None:
        values = (caller, upload.sha256, upload.bytes, upload.uploaded_at)
        await self._change("INSERT OR REPLACE INTO uploads VALUES (?, ?, ?, ?)", *values)

    async def upload(self, caller: str, sha256: str) -> Upload | None:
        query = "SELECT sha256, bytes, uploaded_at FROM uploads WHERE caller = :caller AND sha256 = :sha256"
        rows = await self._journal.read(query, {"caller": caller, "sha256": sha256})
        return Upload(*rows[0]) if rows else None

    async def uploads(self, caller: str, limit: int, before: UploadPlace | None = None) -> Sequence[Upload]:
        at, sha256 = before or (None, None)
        values = {"caller": caller, "limit": limit, "at": at, "sha256": sha256}
        return [Upload(*row) for row in await self._journal.read(UPLOADS, values)]

    async def count_uploads(self, caller: str) -> int:
        query = "SELECT count(*) FROM uploads WHERE caller = :caller"
        return int((await self._journal.read(query, {"caller": caller}))[0][0])

    async def drop_upload(self, caller: str, sha256: str) -> bool:
        return await self._change("DELETE FROM uploads WHERE caller = ? AND sha256 = ?", caller, sha256) > 0

    async def drop_uploads_before(self, moment: float) -> int:
        return await self._change("DELETE FROM uploads WHERE uploaded_at < ?", moment)

    async def add_version(self, owner: str, version: Version, keep: int) -> None:
        named = (owner, version.workspace, version.execution_id, version.caller, version.made_at)
        listed = json.dumps([to_document(file) for file in version.files])

        def add(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute(ADD_VERSION, (*named, charged(version.files), listed))
                database.execute(DROP_OLD_VERSIONS, (owner, version.workspace, keep))

        await self._journal.run(add)

    async def versions(self, owner: str, workspace: str) -> Sequence[Version]:
        rows = await self._journal.read(VERSIONS, {"owner": owner, "workspace": workspace})
        return await asyncio.to_thread(lambda: [_version(row) for row in rows])

    async def newest_version(self, owner: str, workspace: str) -> Version | None:
        rows = await self._journal.read(f"{VERSIONS} LIMIT 1", {"owner": owner, "workspace": workspace})
        return await asyncio.to_thread(_version, rows[0]) if rows else None

    async def file_in_version(self, owner: str, workspace: str, name: str, execution_id: str | None) -> File | None:
        values = {"owner": owner, "workspace": workspace, "name": name, "version": execution_id}
        rows = await self._journal.read(FILE_IN_VERSION, values)
        return _file(json.loads(rows[0][0])) if rows else None

    async def has_version(self, owner: str, workspace: str, execution_id: str) -> bool:
        query = "SELECT 1 FROM workspace_versions WHERE owner = :owner AND workspace = :name AND execution_id = :id"
        return bool(await self._journal.read(query, {"owner": owner, "name": workspace, "id": execution_id}))

    async def count_workspaces(self, owner: str) -> int:
        query = "SELECT count(DISTINCT workspace) FROM workspace_versions WHERE owner = :owner"
        return int((await self._journal.read(query, {"owner": owner}))[0][0])

    async def newest_versions(self, owners: Sequence[str]) -> Sequence[tuple[str, Version]]:
        query = (
            "SELECT *, max(sequence) FROM workspace_versions"
            " WHERE owner IN (SELECT value FROM json_each(:owners)) GROUP BY owner, workspace ORDER BY sequence DESC"
        )
        rows = await self._journal.read(query, {"owners": json.dumps(list(owners))})
        return await asyncio.to_thread(lambda: [(row["owner"], _version(row)) for row in rows])

    async def drop_workspace(self, owner: str, workspace: str) -> int:
        statement = "DELETE FROM workspace_versions WHERE owner = ? AND workspace = ?"
        return await self._change(statement, owner, workspace)

    async def wanted(self) -> frozenset[str]:
        wanted: set[str] = set()

        def add(query: str, database: sqlite3.Connection) -> None:
            wanted.update(sha for (sha,) in database.execute(query))

        for query in WANTED:
            await self._journal.run(partial(add, query))
        return await asyncio.to_thread(frozenset, wanted)

    async def _change(self, statement: str, *values: object) -> int:
        return await self._journal.run(lambda database: database.execute(statement, values).rowcount)


def _version(row: sqlite3.Row) -> Version:
    """Read a version, on a thread other than the event loop's: it may have thousands of files."""
    files = tuple(map(_file, json.loads(row["files"])))
    return Version(row["workspace"], row["execution_id"], row["caller"], row["made_at"], files)


def _file(document: Mapping[str, Any]) -> File:
    # By hand, because `from_document` takes four times as long.
    return File(document["name"], document["bytes"], document["sha256"], document.get("media_type", OCTETS))
