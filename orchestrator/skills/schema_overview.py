"""Show the tables of a schema with their columns, keys and references, also as a Mermaid ER diagram."""

import re
from typing import Any

from servers.postgres import execute_sql

MAX_COLUMNS = 2_000

COLUMNS = """
select t.relname::text as "table", a.attname::text as "column", format_type(a.atttypid, a.atttypmod) as type,
       not a.attnotnull as nullable
from pg_class t
join pg_namespace n on n.oid = t.relnamespace
join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = {schema} and t.relkind in ('r', 'p')
order by t.relname, a.attnum
limit {limit}
"""

KEYS = """
select c.contype::text as kind, t.relname::text as "table", there.relname::text as target_table,
       array_agg(own.attname::text order by pair.position) as columns,
       array_agg(target.attname::text order by pair.position) as target_columns
from pg_constraint c
join pg_class t on t.oid = c.conrelid
join pg_namespace n on n.oid = t.relnamespace
cross join unnest(c.conkey, c.confkey) with ordinality as pair (own, target, position)
join pg_attribute own on own.attrelid = c.conrelid and own.attnum = pair.own
left join pg_class there on there.oid = c.confrelid
left join pg_attribute target on target.attrelid = c.confrelid and target.attnum = pair.target
where n.nspname = {schema} and c.contype in ('p', 'f')
group by c.oid, c.conname, c.contype, t.relname, there.relname
order by t.relname, c.conname
"""


def run(input: dict[str, Any]) -> dict[str, Any]:
    schema = input.get("schema", "public")
    quoted = "'" + schema.replace("'", "''") + "'"
    if not execute_sql(sql=f"select 1 as one from pg_namespace where nspname = {quoted}"):
        raise ValueError(f"`schema` must be a schema of the database; there is no {schema}.")
    columns = execute_sql(sql=COLUMNS.format(schema=quoted, limit=MAX_COLUMNS + 1))
    keys = execute_sql(sql=KEYS.format(schema=quoted))

    tables: dict[str, dict[str, Any]] = {}
    for each in columns[:MAX_COLUMNS]:
        empty = {"name": each["table"], "columns": [], "primaryKey": [], "references": []}
        table = tables.setdefault(each["table"], empty)
        table["columns"].append({"name": each["column"], "type": each["type"], "nullable": each["nullable"]})
    for key in keys:
        if key["table"] in tables and key["kind"] == "p":
            tables[key["table"]]["primaryKey"] = key["columns"]
        elif key["table"] in tables:
            reference = {
                "columns": key["columns"],
                "table": key["target_table"],
                "targetColumns": key["target_columns"],
            }
            tables[key["table"]]["references"].append(reference)
    return {
        "schema": schema,
        "tables": list(tables.values()),
        "mermaid": diagram(list(tables.values())),
        "note": f"Only the first {MAX_COLUMNS} columns are shown." if len(columns) > MAX_COLUMNS else "",
    }


def diagram(tables: list[dict[str, Any]]) -> str:
    lines = ["erDiagram"]
    for table in tables:
        lines.append(f"    {word(table['name'])} {{")
        foreign = [column for reference in table["references"] for column in reference["columns"]]
        keys = {"PK": table["primaryKey"], "FK": foreign}
        for column in table["columns"]:
            marks = ", ".join(mark for mark, members in keys.items() if column["name"] in members)
            lines.append(f"        {word(column['type'])} {word(column['name'])} {marks}".rstrip())
        lines.append("    }")
    for table in tables:
        optional = {column["name"] for column in table["columns"] if column["nullable"]}
        for reference in table["references"]:
            one = "|o" if optional.intersection(reference["columns"]) else "||"
            label = ", ".join(map(word, reference["columns"]))
            lines.append(f'    {word(reference["table"])} {one}--o{{ {word(table["name"])} : "{label}"')
    return "\n".join(lines) + "\n"


def word(text: str) -> str:
    """Leave only what Mermaid takes as a name, which begins with a letter."""
    return re.sub(r"^(?![A-Za-z])", "x", re.sub(r"\W+", "_", text, flags=re.ASCII).rstrip("_"))
