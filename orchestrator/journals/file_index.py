"""Whose files there are: those of executions, uploads, and versions of workspaces. Beside the executions, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from orchestrator.domain.documents import from_document, to_document
from orchestrator.domain.files import LEAST_BYTES, File, Upload, Version, charged
from orchestrator.journals.sqlite import SqliteJournal

STORED = """
SELECT coalesce(sum(bytes), 0) FROM (
    SELECT max(bytes, ?2) AS bytes FROM files WHERE ?1 IS NULL OR caller = ?1
    UNION ALL SELECT max(bytes, ?2) FROM uploads WHERE ?1 IS NULL OR caller = ?1
    UNION ALL SELECT bytes FROM workspace_versions WHERE ?1 IS NULL OR caller = ?1
)
"""
OLDEST_FILES = """
SELECT execution_id, sum(max(bytes, ?2)) FROM files WHERE caller = ?1 GROUP BY execution_id ORDER BY min(kept_at)
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
WANTED = """
SELECT sha256 FROM files UNION SELECT sha256 FROM uploads
UNION SELECT file.value ->> 'sha256' FROM workspace_versions, json_each(workspace_versions.files) AS file
"""


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
                for execution_id, size in database.execute(OLDEST_FILES, (caller, LEAST_BYTES)).fetchall():
                    if freed >= at_least_bytes:
                        break
                    database.execute("DELETE FROM files WHERE execution_id = ?", (execution_id,))
                    freed += size
            return freed

        return await self._journal.run(drop)

    async def stored_bytes(self, caller: str | None = None) -> int:
        values = (caller, LEAST_BYTES)
        return await self._journal.run(lambda database: int(database.execute(STORED, values).fetchone()[0]))

    async def add_upload(self, caller: str, upload: Upload) -> None:
        values = (caller, upload.sha256, upload.bytes, upload.uploaded_at)
        await self._change("INSERT OR REPLACE INTO uploads VALUES (?, ?, ?, ?)", *values)

    async def uploads(self, caller: str) -> Sequence[Upload]:
        query = "SELECT sha256, bytes, uploaded_at FROM uploads WHERE caller = :caller ORDER BY uploaded_at DESC"
        return [Upload(**dict(row)) for row in await self._journal.read(query, {"caller": caller})]

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
        query = (
            "SELECT * FROM workspace_versions WHERE owner = :owner AND workspace = :workspace ORDER BY sequence DESC"
        )
        rows = await self._journal.read(query, {"owner": owner, "workspace": workspace})
        return [_version(row) for row in rows]

    async def newest_versions(self, owners: Sequence[str]) -> Sequence[tuple[str, Version]]:
        query = (
            "SELECT *, max(sequence) FROM workspace_versions"
            " WHERE owner IN (SELECT value FROM json_each(:owners)) GROUP BY owner, workspace ORDER BY sequence DESC"
        )
        rows = await self._journal.read(query, {"owners": json.dumps(list(owners))})
        return [(row["owner"], _version(row)) for row in rows]

    async def drop_workspace(self, owner: str, workspace: str) -> int:
        statement = "DELETE FROM workspace_versions WHERE owner = ? AND workspace = ?"
        return await self._change(statement, owner, workspace)

    async def wanted(self) -> frozenset[str]:
        return await self._journal.run(lambda database: frozenset(sha for (sha,) in database.execute(WANTED)))

    async def _change(self, statement: str, *values: object) -> int:
        return await self._journal.run(lambda database: database.execute(statement, values).rowcount)


def _version(row: sqlite3.Row) -> Version:
    files = tuple(from_document(File, each) for each in json.loads(row["files"]))
    return Version(row["workspace"], row["execution_id"], row["caller"], row["made_at"], files)
