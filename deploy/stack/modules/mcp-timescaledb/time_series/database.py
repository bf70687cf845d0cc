"""The database: one statement in a session of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus
from psycopg.rows import dict_row

from time_series.answer import Answer, collected

# Below the number of connections that the role may have.
MAX_SESSIONS = 12
CONNECT_SECONDS = 10
ROWS_AT_ONCE = 100


class Refused(Exception):
    """The database has rejected the statement; the message is its own."""


@dataclass(frozen=True, slots=True)
class Database:
    host: str
    port: int
    name: str
    user: str
    password: str = field(repr=False)
    # Callers wait here and not at the database, which refuses a connection beyond the limit.
    sessions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_SESSIONS))

    async def run(self, statement: str, parameters: Sequence[Any] = ()) -> Answer:
        """Run one statement with $1, $2 … for the parameters. No caller finds what another has set in its session."""
        async with self.sessions:
            try:
                return await self._run(statement, parameters)
            except psycopg.Error as error:
                raise Refused(str(error).strip() or type(error).__name__) from error

    async def _run(self, statement: str, parameters: Sequence[Any]) -> Answer:
        async with await psycopg.AsyncConnection.connect(
            host=self.host,
            port=self.port,
            dbname=self.name,
            user=self.user,
            password=self.password,
            connect_timeout=CONNECT_SECONDS,
            autocommit=True,
        ) as connection:
            cursor = psycopg.AsyncRawCursor(connection, row_factory=dict_row)
            given = [as_parameter(each) for each in parameters]
            if await _returns_rows(connection, statement):
                # Not all at once: a table may have more than there is memory for.
                return await collected(cursor.stream(statement, given, size=ROWS_AT_ONCE))
            # Of what is prepared, the server takes one statement and no more.
            await cursor.execute(statement, given, prepare=True)
            return Answer([], max(cursor.rowcount, 0), is_cut=False)


async def _returns_rows(connection: psycopg.AsyncConnection[Any], statement: str) -> bool:
    """Ask the server, which does not run it for that."""
    server = connection.pgconn
    server.send_prepare(b"", statement.encode())
    for prepared in await connection.wait(generators.execute(server)):
        if prepared.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(prepared)
    server.send_describe_prepared(b"")
    return any(described.nfields for described in await connection.wait(generators.execute(server)))


def as_parameter(value: Any) -> Any:
    """Return numbers as text as well: the server then takes each for the type that the statement asks for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
