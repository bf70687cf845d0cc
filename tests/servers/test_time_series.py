"""The MCP server `timescaledb` with a real TimescaleDB."""

from __future__ import annotations

import pytest

from tests.servers.asking import printed, require_described_and_typed
from tests.support.api import Api, eventually
from tests.support.stack import OptionalServers, run

SERVERS = ("timescaledb",)
READY = "from servers.timescaledb import execute_query\nexecute_query(query='SELECT 1')"
IMPORTS = (
    "from servers.timescaledb import (describe_table, execute_query, get_hypertable_stats, list_hypertables,\n"
    "    list_tables, query_time_buckets)\nimport json\n"
)
READINGS = """
execute_query(query="CREATE TABLE IF NOT EXISTS readings (at timestamptz NOT NULL, sensor text, value float8)")
execute_query(query="SELECT create_hypertable('readings', by_range('at', interval '1 day'), if_not_exists => true)")
execute_query(query="TRUNCATE readings")
hours = "SELECT '2026-05-01'::timestamptz + n * interval '1 hour', 's', n FROM generate_series(0, 71) n"
execute_query(query=f"INSERT INTO readings {hours}")
"""


async def test_every_tool_has_a_description_and_a_typed_result(api: Api) -> None:
    await require_described_and_typed(api, "timescaledb", count=6)


async def test_a_hypertable_is_made_filled_described_and_aggregated_by_time(api: Api) -> None:
    program = """
table = [each for each in list_hypertables()["hypertables"] if each["name"] == "readings"]
stats = get_hypertable_stats(table="readings")
about = describe_table(table="public.readings")
days = query_time_buckets(table="readings", value_column="value", bucket="1 day", aggregate="max", since="2026-05-02")
columns = [column["name"] for column in about["columns"]]
print(json.dumps([table[0]["timeColumn"], table[0]["chunkInterval"], table[0]["chunks"], stats["chunks"],
                  stats["earliest"], about["isHypertable"], columns,
                  [(each["bucket"][:10], each["value"]) for each in days["buckets"]]]))
"""
    assert await printed(api, IMPORTS + f"{READINGS}{program}") == [
        "at",
        "1 day",
        3,
        3,
        "2026-05-01 00:00:00+00",
        True,
        ["at", "sensor", "value"],
        [["2026-05-02", 47.0], ["2026-05-03", 71.0]],
    ]


async def test_rows_are_objects_with_numbers_as_numbers_and_times_as_text(api: Api) -> None:
    query = "SELECT $1::int AS i, 1.5::numeric AS n, 'NaN'::float8 AS f, '2026-05-01'::date AS d, '[1]'::jsonb AS j"
    program = f'print(json.dumps(execute_query(query="{query}", parameters=[7])))'
    assert await printed(api, IMPORTS + program) == {
        "rows": [{"i": 7, "n": 1.5, "f": "nan", "d": "2026-05-01", "j": [1]}],
        "rowCount": 1,
        "truncated": False,
    }


async def test_more_rows_than_fit_are_cut_and_said_to_be(api: Api) -> None:
    program = """
answer = execute_query(query="SELECT n FROM generate_series(1, 12000) n")
print(json.dumps([len(answer["rows"]), answer["rowCount"], answer["truncated"]]))
"""
    assert await printed(api, IMPORTS + program) == [10_000, 12_000, True]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('execute_query(query="SELECT * FROM nowhere")', 'relation "nowhere" does not exist'),
        ('execute_query(query="SELECT 1; SELECT 2")', "cannot insert multiple commands"),
        ('execute_query(query="CREATE ROLE mine SUPERUSER")', "permission denied"),
        ('execute_query(query="SELECT pg_sleep(9)")', "permission denied for function pg_sleep"),
        ("execute_query(query=\"COPY pg_class TO PROGRAM 'cat'\")", "permission denied"),
        ('execute_query(query="CREATE EXTENSION dblink")', "permission denied"),
        ('execute_query(query="DROP EXTENSION timescaledb CASCADE")', "must be owner of extension"),
        ("execute_query(query=\"SELECT add_job('now', '1s')\")", "not supported under the current"),
        ('get_hypertable_stats(table="pg_catalog.pg_class")', "is not a hypertable; list_hypertables tells"),
        ("describe_table(table='x\"; DROP TABLE metrics; --')", "does not exist"),
    ],
)
async def test_what_is_refused_is_an_error(api: Api, call: str, error: str) -> None:
    result = await api.python(f"{IMPORTS}{call}")
    assert result["outcome"] == "failed"
    assert error in result["stderr"]


async def test_hypertables_survive_a_restart_and_can_be_written_after_it(api: Api, servers: OptionalServers) -> None:
    await printed(api, IMPORTS + f"{READINGS}print(1)")
    run("docker", "restart", servers.container("mcp-timescale"))
    await eventually(lambda: answers(api), seconds=60)
    program = """
execute_query(query="INSERT INTO readings VALUES ('2026-06-01', 's', 99)")
print(json.dumps(execute_query(query="SELECT count(*) AS rows, max(value) AS most FROM readings")["rows"]))
"""
    assert await printed(api, IMPORTS + program) == [{"rows": 73, "most": 99.0}]


async def answers(api: Api) -> bool:
    return bool((await api.python(f"{IMPORTS}list_tables()"))["outcome"] == "completed")
