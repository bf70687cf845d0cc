"""The skills that were saved, beside the executions, in SQLite. Each change is one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.documents import to_document
from orchestrator.domain.skills import (
    BUILT_IN,
    KEPT_RETIRED,
    Proof,
    Remark,
    SkillContent,
    SkillState,
    SkillUse,
    SkillVersion,
)
from orchestrator.journals.sqlite import SqliteJournal

ALL = """
SELECT version, author, name, state, created_at, content, document,
    coalesce(uses, 0) AS uses, coalesce(failures, 0) AS failures, last_used_at
FROM skills LEFT JOIN skill_uses USING (version, author) ORDER BY created_at
"""
# Whoever saves the same content again keeps its history.
SAVE = """
INSERT INTO skills VALUES (:version, :author, :name, :state, :created_at, :content, :document)
ON CONFLICT (version, author) DO UPDATE SET
    state = excluded.state, created_at = excluded.created_at, document = excluded.document
"""
RECORD = """
INSERT INTO skill_recordings SELECT :version, :author, :recording WHERE :recording IS NOT NULL
ON CONFLICT (version, author) DO UPDATE SET recording = excluded.recording
"""
FORGET_RECORDING = "DELETE FROM skill_recordings WHERE version = :version AND author = :author"
REPLACE_OWN = """
UPDATE skills SET state = 'retired'
WHERE author = :author AND name = :name AND version != :version
    AND (state = 'draft' OR (state = 'proven' AND :state = 'proven'))
"""
APPROVE = "UPDATE skills SET state = 'approved', document = :document WHERE version = :version AND author = :author"
RETIRE_APPROVED = """
UPDATE skills SET state = 'retired'
WHERE name = :name AND state = 'approved' AND NOT (version = :version AND author = :author)
"""
RETIRE = "UPDATE skills SET state = 'retired' WHERE version = :version AND author = :author"
FORGET_RETIRED = """
DELETE FROM skills WHERE state = 'retired' AND author = :author AND version NOT IN (
    SELECT version FROM skills WHERE state = 'retired' AND author = :author ORDER BY created_at DESC LIMIT :kept
)
"""
FORGET_RECORDINGS = """
DELETE FROM skill_recordings WHERE NOT EXISTS (
    SELECT 1 FROM skills
    WHERE skills.version = skill_recordings.version AND skills.author = skill_recordings.author AND state != 'retired'
)
"""
FORGET_USES = """
DELETE FROM skill_uses WHERE author != :built_in AND NOT EXISTS (
    SELECT 1 FROM skills WHERE skills.version = skill_uses.version AND skills.author = skill_uses.author
)
"""
CHANGE_PROOF = "UPDATE skills SET document = :document WHERE version = :version AND author = :author"
COUNT_USE = """
INSERT INTO skill_uses SELECT :version, :author, :uses, :failures, :last_used_at
WHERE :author = :built_in OR EXISTS (SELECT 1 FROM skills WHERE version = :version AND author = :author)
ON CONFLICT (version, author) DO UPDATE SET
    uses = uses + excluded.uses, failures = failures + excluded.failures, last_used_at = excluded.last_used_at
"""
USES_OF_BUILT_IN = "SELECT * FROM skill_uses WHERE author = :built_in"


class SqliteSkills:
    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    async def all(self) -> Sequence[SkillVersion]:
        return [_version(row) for row in await self._journal.read(ALL, {})]

    async def recording(self, version: str, author: str) -> bytes | None:
        query = "SELECT recording FROM skill_recordings WHERE version = :version AND author = :author"
        rows = await self._journal.read(query, {"version": version, "author": author})
        return rows[0]["recording"] if rows else None

    async def save(self, saved: SkillVersion, recording: bytes | None) -> None:
        await self._change(
            (SAVE, FORGET_RECORDING, RECORD, REPLACE_OWN, FORGET_RETIRED, FORGET_RECORDINGS, FORGET_USES),
            {**_row(saved), "recording": recording},
        )

    async def approve(self, approved: SkillVersion) -> None:
        await self._change((APPROVE, RETIRE_APPROVED, FORGET_RECORDINGS), _row(approved))

    async def retire(self, version: str, author: str) -> None:
        await self._change((RETIRE, FORGET_RECORDINGS), {"version": version, "author": author})

    async def change_proof(self, changed: SkillVersion, recording: bytes | None) -> None:
        await self._change((CHANGE_PROOF, RECORD, FORGET_RECORDINGS), {**_row(changed), "recording": recording})

    async def count_uses(self, uses: Sequence[SkillUse]) -> None:
        rows = [_use_row(use) for use in uses]

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany(COUNT_USE, rows)

        await self._journal.run(write)

    async def built_in_uses(self) -> Mapping[str, SkillUse]:
        rows = await self._journal.read(USES_OF_BUILT_IN, {"built_in": BUILT_IN})
        return {
            row["version"]: SkillUse(row["version"], None, BUILT_IN, row["uses"], row["failures"], row["last_used_at"])
            for row in rows
        }

    async def _change(self, statements: Sequence[str], values: dict[str, Any]) -> None:
        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                for statement in statements:
                    database.execute(statement, values)

        await self._journal.run(write)


def _row(skill: SkillVersion) -> dict[str, Any]:
    document = {
        "author_role": skill.author_role,
        "inferred": list(skill.inferred),
        "remarks": to_document(skill.remarks),
        "proof": _proof_document(skill.proof) if skill.proof is not None else None,
        "drift": list(skill.drift),
        "approved_by": skill.approved_by,
        "approved_at": skill.approved_at,
    }
    return {
        "version": skill.version,
        "author": skill.author,
        "name": skill.name,
        "state": skill.state.value,
        "created_at": skill.created_at,
        "content": skill.content.canonical.decode(),
        "document": json.dumps(document),
        "kept": KEPT_RETIRED,
        "built_in": BUILT_IN,
    }


def _proof_document(proof: Proof) -> dict[str, Any]:
    return {
        "proven_at": proof.proven_at,
        "digests": dict(proof.digests),
        "executions": list(proof.executions),
        "calls": proof.calls,
    }


def _use_row(use: SkillUse) -> dict[str, Any]:
    return {
        "version": use.name if use.version is None else use.version,
        "author": BUILT_IN if use.version is None else use.author,
        "uses": use.uses,
        "failures": use.failures,
        "last_used_at": use.last_used_at,
        "built_in": BUILT_IN,
    }


def _version(row: sqlite3.Row) -> SkillVersion:
    document, content = json.loads(row["document"]), SkillContent.from_document(json.loads(row["content"]))
    found = document.get("proof")
    proof = Proof(found["proven_at"], found["digests"], tuple(found["executions"]), found["calls"]) if found else None
    return SkillVersion(
        content=content,
        author=row["author"],
        author_role=document.get("author_role", ""),
        state=SkillState(row["state"]),
        created_at=row["created_at"],
        inferred=tuple(document.get("inferred", ())),
        remarks=tuple(Remark(**remark) for remark in document.get("remarks", ())),
        proof=proof,
        drift=tuple(document.get("drift", ())),
        approved_by=document.get("approved_by"),
        approved_at=document.get("approved_at"),
        uses=row["uses"],
        failures=row["failures"],
        last_used_at=row["last_used_at"],
        version=row["version"],
    )
