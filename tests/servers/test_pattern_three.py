"""The pattern by which the original shows what it is for, word for word: query, filter in the sandbox, upload."""

from __future__ import annotations

from pathlib import Path

from tests.support.api import Api

SERVERS = ("timescaledb", "minio")
READY = """
from servers.timescaledb import execute_query
from servers.minio import list_buckets
execute_query(query="SELECT 1 FROM metrics LIMIT 1")
list_buckets()
"""
PROGRAM = Path(__file__).parent / "programs" / "pattern_three.ts"
# Two of the last day are critical, one is older and one is not.
METRICS = """
from servers.timescaledb import execute_query
from servers.minio import create_bucket
execute_query(query="TRUNCATE metrics")
for age, name, value in [("1 hour", "a", 150.5), ("2 hours", "b", 101), ("2 days", "c", 500), ("1 hour", "d", 100)]:
    execute_query(query="INSERT INTO metrics VALUES (now() - $1::interval, $2, $3)", parameters=[age, name, value])
create_bucket(bucket="exports")
"""
UPLOADED = """
from servers.minio import download_object, list_objects
(found,) = list_objects(bucket="exports", prefix="export-")["objects"]
print(download_object(bucket="exports", key=found["key"])["content"])
"""


async def test_a_query_is_filtered_in_the_sandbox_and_uploaded_as_csv(api: Api) -> None:
    prepared = await api.python(METRICS)
    assert prepared["outcome"] == "completed", prepared["stderr"]
    result = await api.typescript(PROGRAM.read_text())
    assert result["output"] == "Exported 2 critical metrics\n", result["stderr"]
    assert [(call["server"], call["tool"], call["outcome"]) for call in result["toolCalls"]] == [
        ("timescaledb", "execute_query", "done"),
        ("minio", "upload_object", "done"),
    ]
    uploaded = (await api.python(UPLOADED))["output"].strip()
    # As it is spelled in the original, its lines end with a backslash and an n.
    assert [line.split(",")[1:] for line in uploaded.split("\\n")] == [["a", "150.5"], ["b", "101"]]
