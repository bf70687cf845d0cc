"""The statements behind the tools that tell what there is."""

from __future__ import annotations

from typing import Any

from psycopg import sql

TABLES = """
select n.nspname as schema, c.relname as name,
       case when h.id is not null then 'hypertable' when c.relkind in ('v', 'm') then 'view' else 'table' end as kind
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join _timescaledb_catalog.hypertable h on h.schema_name = n.nspname and h.table_name = c.relname
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and n.nspname !~ '^(pg_|_timescaledb_|timescaledb_)' and n.nspname <> 'information_schema'
order by 1, 2
"""

COLUMNS = """
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable,
       pg_get_expr(d.adbin, d.adrelid) as default
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

ABOUT = """
select array(select pg_get_indexdef(indexrelid) from pg_index where indrelid = c.oid order by 1) as indexes,
       exists (select from _timescaledb_catalog.hypertable h
               where h.schema_name = n.nspname and h.table_name = c.relname) as "isHypertable",
       greatest(approximate_row_count(c.oid::regclass), 0) as "approximateRows"
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = $1::regclass
"""

HYPERTABLES = """
select h.hypertable_schema as schema, h.hypertable_name as name, d.column_name as "timeColumn",
       coalesce(d.time_interval::text, d.integer_interval::text) as "chunkInterval", h.num_chunks as chunks
from timescaledb_information.hypertables h
join timescaledb_information.dimensions d using (hypertable_schema, hypertable_name)
where d.dimension_number = 1
order by 1, 2
"""

TIME_COLUMN = """
select d.column_name as "column"
from timescaledb_information.dimensions d
where format('%I.%I', d.hypertable_schema, d.hypertable_name)::regclass = $1::regclass and d.dimension_number = 1
"""

STATISTICS = """
select (select count(*) from show_chunks($1::regclass)) as chunks, coalesce(hypertable_size($1::regclass), 0) as bytes,
       (select min({column}) from {table})::text as earliest, (select max({column}) from {table})::text as latest
"""

BUCKETS = """
select time_bucket($1::interval, {column})::text as bucket, {aggregate}({value})::float8 as value
from {table}
where ($2::timestamptz is null or {column} >= $2::timestamptz)
  and ($3::timestamptz is null or {column} < $3::timestamptz)
group by 1
order by min({column})
limit 10000
"""


def statistics(table: str, column: str) -> str:
    return _filled(STATISTICS, table=sql.SQL(table), column=sql.Identifier(column))


def buckets(table: str, column: str, value: str, aggregate: str) -> str:
    return _filled(
        BUCKETS,
        table=sql.SQL(table),
        column=sql.Identifier(column),
        value=sql.Identifier(value),
        aggregate=sql.SQL(aggregate),
    )


def qualified(table: str) -> str:
    """Quote a name as SQL does, so that it stands for a table and for nothing else."""
    schema, _, name = table.rpartition(".")
    return str(sql.Identifier(schema or "public", name).as_string(None))


def _filled(statement: str, **parts: Any) -> str:
    return str(sql.SQL(statement).format(**parts).as_string(None))
