"""Say what a table holds: its rows, and for each column its type, gaps, range and most frequent values."""

from typing import Any

from servers.postgres import execute_sql

MAX_COLUMNS = 100
MAX_ROWS = 1_000_000
MAX_VALUE_CHARACTERS = 100
# Of these types PostgreSQL knows the least and the greatest value. All others are compared as text.
ORDERED_TYPES = {
    "bigint",
    "character",
    "character varying",
    "date",
    "double precision",
    "integer",
    "numeric",
    "real",
    "smallint",
    "text",
    "time without time zone",
    "timestamp with time zone",
    "timestamp without time zone",
}


def run(input: dict[str, Any]) -> dict[str, Any]:
    table, schema, top = input["table"], input.get("schema", "public"), input.get("top", 3)
    if not 0 <= top <= 20:
        raise ValueError("`top` must be between 0 and 20.")
    columns = execute_sql(
        sql="select column_name, data_type from information_schema.columns "
        f"where table_schema = {literal(schema)} and table_name = {literal(table)} order by ordinal_position"
    )
    if not columns:
        raise ValueError(f"`table` must be a table or view of the schema {schema}; there is no {table}.")

    whole = f"{identifier(schema)}.{identifier(table)}"
    rows = execute_sql(sql=f"select count(*) as count from {whole}")[0]["count"]
    source = f"(select * from {whole} limit {MAX_ROWS}) as source"
    notes = []
    if rows > MAX_ROWS:
        notes.append(f"The columns were profiled over {MAX_ROWS} of {rows} rows.")
    if len(columns) > MAX_COLUMNS:
        notes.append(f"Only the first {MAX_COLUMNS} of {len(columns)} columns were profiled.")
    return {
        "table": f"{schema}.{table}",
        "rows": rows,
        "columns": [profile(each["column_name"], each["data_type"], source, top) for each in columns[:MAX_COLUMNS]],
        "note": " ".join(notes),
    }


def profile(name: str, data_type: str, source: str, top: int) -> dict[str, Any]:
    ordered = data_type in ORDERED_TYPES
    column = identifier(name) if ordered else f"{identifier(name)}::text"
    least, greatest = (shown(f"min({column})"), shown(f"max({column})")) if ordered else ("null", "null")
    summary = execute_sql(
        sql=f"select count(*) - count({column}) as nulls, count(distinct {column}) as distinct_values, "
        f"{least} as min, {greatest} as max from {source}"
    )[0]
    frequent = execute_sql(
        sql=f"select {shown(column)} as value, count(*) as count from {source} where {column} is not null "
        f"group by {column} order by count(*) desc, {column} limit {top}"
    )
    return {
        "name": name,
        "type": data_type,
        "nulls": summary["nulls"],
        "distinct": summary["distinct_values"],
        "min": summary["min"],
        "max": summary["max"],
        "top": [{"value": each["value"], "count": each["count"]} for each in frequent],
    }


def shown(expression: str) -> str:
    return f"left(({expression})::text, {MAX_VALUE_CHARACTERS})"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
