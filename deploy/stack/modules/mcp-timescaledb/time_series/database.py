"""The database: one statement in a session of its own, and its rows as JSON can hold them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.rows import dict_row

MAX_ROWS = 10_000
# Below the number of connections that the role may have.
MAX_SESSIONS = 12
CONNECT_SECONDS = 10

Row = dict[str, Any]


class Refused(Exception):
    """The database has rejected the statement; the message is its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    rows: list[Row]
    affected: int
    is_cut: bool


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
            # Of what is prepared, the server takes one statement and no more.
            await cursor.execute(statement, [as_parameter(each) for each in parameters], prepare=True)
            if cursor.description is None:
                return Answer([], max(cursor.rowcount, 0), is_cut=False)
            rows = await cursor.fetchmany(MAX_ROWS)
            return Answer([as_json(row) for row in rows], cursor.rowcount, cursor.rowcount > len(rows))


def as_parameter(value: Any) -> Any:
    """Return numbers as text as well: the server then takes each for the type that the statement asks for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def as_json(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return as_json(float(value))
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {str(name): as_json(part) for name, part in value.items()}
        case list() | tuple():
            return [as_json(part) for part in value]
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
