"""The built-in skill for servers that are asked for by name."""

from __future__ import annotations

from tests.support.api import Api
from tests.support.proving import require_proven_as_kept

SERVERS = ("minio", "postgres")
READY = """
from servers.minio import list_buckets
from servers.postgres import execute_sql
list_buckets()
execute_sql(sql="select 1 from customers limit 1")
"""
# What its example names; each test makes its own buckets otherwise.
BUCKET = """
from servers.minio import create_bucket, list_buckets
if "shop" not in [bucket["name"] for bucket in list_buckets()["buckets"]]:
    create_bucket(bucket="shop")
"""
READ = """
import json
from servers.minio import download_object, list_objects
keys = [each["key"] for each in list_objects(bucket="shop", prefix="customers/")["objects"]]
row = json.loads(download_object(bucket="shop", key="customers/1.json")["content"])
print(keys[:2], row["id"])
"""
ROWS = {
    "sql": "select id, name from customers order by id",
    "keyColumn": "id",
    "bucket": "shop",
    "prefix": "customers/",
}


async def test_the_skill_that_keeps_rows_as_objects_is_proven_and_writes_only_what_changed(api: Api) -> None:
    assert (await api.python(BUCKET))["outcome"] == "completed"
    await require_proven_as_kept(api, "rows_to_objects")
    written = []
    for _ in range(2):
        _, ran = await api.post("/skills/rows_to_objects/run", {"input": {**ROWS, "dryRun": False}})
        assert ran["outcome"] == "completed", ran["stderr"]
        written.append([call["tool"] for call in ran["toolCalls"]].count("upload_object"))
    assert written == [8, 0]
    assert (await api.python(READ))["output"] == "['customers/1.json', 'customers/2.json'] 1\n"
