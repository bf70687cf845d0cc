"""Turn the rows of a table into entities of the knowledge graph, each related to the value of one of its columns."""

from typing import Any

from servers.memory import create_entities, create_relations
from servers.postgres import execute_sql

DEFAULT_ROWS = 200
MAX_ROWS = 1_000


def run(input: dict[str, Any]) -> dict[str, Any]:
    table, schema, prefix = input["table"], input.get("schema", "public"), input.get("prefix", "")
    limit = input.get("limit", DEFAULT_ROWS)
    if not 1 <= limit <= MAX_ROWS:
        raise ValueError(f"`limit` must be between 1 and {MAX_ROWS}.")
    name_column, target_column, described = input["nameColumn"], input["targetColumn"], input.get("observe", [])
    require_columns(schema, table, [name_column, target_column, *described])

    wanted = dict.fromkeys([name_column, target_column, *described])
    columns = ", ".join(f"{identifier(each)}::text" for each in wanted)
    # One row more than wanted tells whether there are others.
    found = execute_sql(
        sql=f"select {columns} from {identifier(schema)}.{identifier(table)} "
        f"where {identifier(name_column)} is not null order by {columns} limit {limit + 1}"
    )
    rows = found[:limit]

    # The server ignores what it knows, but not what is given twice in one call.
    entities: dict[str, dict[str, Any]] = {}
    relations: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        name = prefix + row[name_column]
        observations = [f"{each}: {row[each]}" for each in described if row[each] is not None]
        entities.setdefault(name, {"name": name, "entityType": input["entityType"], "observations": observations})
    for row in rows:
        if row[target_column] is not None:
            name, target = prefix + row[name_column], prefix + row[target_column]
            entities.setdefault(target, {"name": target, "entityType": input["targetType"], "observations": []})
            relations[name, target] = {"from": name, "to": target, "relationType": input["relationType"]}

    added_entities = create_entities(entities=list(entities.values()))["entities"]
    added_relations = create_relations(relations=list(relations.values()))["relations"]
    return {
        "rows": len(rows),
        "entities": {"given": len(entities), "added": len(added_entities)},
        "relations": {"given": len(relations), "added": len(added_relations)},
        "note": f"Only the first {limit} rows were taken; raise `limit` for more." if len(found) > limit else "",
    }


def require_columns(schema: str, table: str, columns: list[str]) -> None:
    found = execute_sql(
        sql="select column_name from information_schema.columns "
        f"where table_schema = {literal(schema)} and table_name = {literal(table)} order by ordinal_position"
    )
    known = [each["column_name"] for each in found]
    if not known:
        raise ValueError(f"`table` must be a table or view of the schema {schema}; there is no {table}.")
    for column in columns:
        if column not in known:
            raise ValueError(f"{table} has no column {column}; use one of {', '.join(known)}.")


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
