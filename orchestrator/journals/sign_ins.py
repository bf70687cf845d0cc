"""Who is signed in to the console, beside the executions, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from orchestrator.domain.sign_in import SignIn
from orchestrator.journals.sqlite import SqliteJournal

FIELDS = tuple(field.name for field in fields(SignIn))
ADD = "INSERT OR REPLACE INTO sign_ins VALUES (?, ?, ?, ?, ?)"  # in the order of the fields
DROP = "DELETE FROM sign_ins WHERE token_sha256 = ?"


class SqliteSignIns:
    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    async def sign_ins(self) -> Sequence[SignIn]:
        rows = await self._journal.read("SELECT * FROM sign_ins", {})
        return [SignIn(**{name: row[name] for name in FIELDS}) for row in rows]

    async def add_sign_in(self, session: SignIn) -> None:
        await self._journal.run(lambda database: database.execute(ADD, astuple(session)))

    async def drop_sign_in(self, token_sha256: str) -> None:
        await self._journal.run(lambda database: database.execute(DROP, (token_sha256,)))
