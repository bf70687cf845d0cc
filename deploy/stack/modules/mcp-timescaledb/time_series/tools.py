"""The tools: their descriptions, what they take and what they return."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from time_series import queries
from time_series.answer import Answer, Row
from time_series.database import Database, Refused

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

Table = Annotated[str, Field(description="Name of the table, with its schema if that is not public: sensors.readings")]
Parameter = str | int | float | bool | None
Aggregate = Literal["avg", "min", "max", "sum", "count"]


class Rows(BaseModel):
    rows: list[Row] = Field(description="One object for each row, by the names of the columns")
    rowCount: int = Field(description="How many rows the statement returned or changed")  # noqa: N815  # as programs see it
    truncated: bool = Field(description="Whether rows were left out; then ask with LIMIT and OFFSET")


class TableName(BaseModel):
    table_schema: str = Field(alias="schema")
    name: str
    kind: Literal["table", "view", "hypertable"]


class Tables(BaseModel):
    tables: list[TableName]


class Column(BaseModel):
    name: str
    type: str
    nullable: bool
    default: str | None


class Description(BaseModel):
    columns: list[Column]
    indexes: list[str] = Field(description="The definitions of its indexes")
    isHypertable: bool  # noqa: N815
    approximateRows: int = Field(description="The database's estimate; count(*) is exact")  # noqa: N815


class Hypertable(BaseModel):
    table_schema: str = Field(alias="schema")
    name: str
    timeColumn: str  # noqa: N815
    chunkInterval: str = Field(description="How much time one chunk holds")  # noqa: N815
    chunks: int


class Hypertables(BaseModel):
    hypertables: list[Hypertable]


class Statistics(BaseModel):
    chunks: int
    bytes: int = Field(description="Of the table, its indexes and what is stored apart")
    earliest: str | None = Field(description="The first time in it, none if it is empty")
    latest: str | None


class Bucket(BaseModel):
    bucket: str = Field(description="When it begins")
    value: float | None


class Buckets(BaseModel):
    buckets: list[Bucket]


def server(database: Database) -> MCPServer[Any]:
    tools: MCPServer[Any] = MCPServer("timescaledb", log_level="ERROR")

    @tools.tool(annotations=WRITES)
    async def execute_query(
        query: Annotated[str, Field(description="One SQL statement; $1, $2 … stand for the parameters")],
        parameters: Annotated[list[Parameter] | None, Field(description="Values for $1, $2 …")] = None,
    ) -> Rows:
        """Run one SQL statement on the time-series database and return its rows as objects."""
        answer = await ask(database, query, parameters or [])
        return Rows(rows=answer.rows, rowCount=answer.affected, truncated=answer.is_cut)

    @tools.tool(annotations=READS)
    async def list_tables() -> Tables:
        """List the tables, views and hypertables of the time-series database."""
        answer = await ask(database, queries.TABLES)
        return Tables(tables=[TableName.model_validate(row) for row in answer.rows])

    @tools.tool(annotations=READS)
    async def describe_table(table: Table) -> Description:
        """Return the columns and indexes of a table, and whether it is a hypertable."""
        columns = await ask(database, queries.COLUMNS, [queries.qualified(table)])
        about = await ask(database, queries.ABOUT, [queries.qualified(table)])
        return Description.model_validate({"columns": columns.rows, **about.rows[0]})

    @tools.tool(annotations=READS)
    async def list_hypertables() -> Hypertables:
        """List the hypertables, the tables that TimescaleDB partitions by time, with their chunks."""
        answer = await ask(database, queries.HYPERTABLES)
        return Hypertables(hypertables=[Hypertable.model_validate(row) for row in answer.rows])

    @tools.tool(annotations=READS)
    async def get_hypertable_stats(table: Table) -> Statistics:
        """Return how large a hypertable is, how many chunks it has and which time it covers."""
        column = await time_column(database, table)
        answer = await ask(database, queries.statistics(queries.qualified(table), column), [queries.qualified(table)])
        return Statistics.model_validate(answer.rows[0])

    @tools.tool(annotations=READS)
    async def query_time_buckets(
        table: Table,
        value_column: Annotated[str, Field(description="The column to aggregate")],
        bucket: Annotated[str, Field(description="Width of a bucket, such as '5 minutes' or '1 day'")],
        aggregate: Aggregate = "avg",
        since: Annotated[str | None, Field(description="Only from this time on, in ISO 8601")] = None,
        until: Annotated[str | None, Field(description="Only before this time, in ISO 8601")] = None,
    ) -> Buckets:
        """Aggregate a column of a hypertable over buckets of time, oldest first, at most 10,000."""
        column = await time_column(database, table)
        statement = queries.buckets(queries.qualified(table), column, value_column, aggregate)
        answer = await ask(database, statement, [bucket, since, until])
        return Buckets(buckets=[Bucket.model_validate(row) for row in answer.rows])

    return tools


async def ask(database: Database, statement: str, parameters: list[Any] | None = None) -> Answer:
    try:
        return await database.run(statement, parameters or [])
    except Refused as refused:
        raise ToolError(str(refused)) from refused


async def time_column(database: Database, table: str) -> str:
    answer = await ask(database, queries.TIME_COLUMN, [queries.qualified(table)])
    if not answer.rows:
        raise ToolError(f"{table} is not a hypertable; list_hypertables tells which there are.")
    return str(answer.rows[0]["column"])
