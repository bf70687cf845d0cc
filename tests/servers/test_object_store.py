"""The MCP server `minio` with a real store."""

from __future__ import annotations

import pytest

from tests.servers.asking import printed, require_described_and_typed
from tests.support.api import Api

SERVERS = ("minio",)
READY = "from servers.minio import list_buckets\nlist_buckets()"
IMPORTS = (
    "from servers.minio import (copy_object, create_bucket, delete_bucket, delete_objects, download_object,\n"
    "    get_object_metadata, list_buckets, list_objects, upload_object)\nimport json\n"
)


async def test_every_tool_has_a_description_and_a_typed_result(api: Api) -> None:
    await require_described_and_typed(api, "minio", count=9)


async def test_an_object_is_uploaded_listed_described_copied_read_and_deleted(api: Api) -> None:
    program = """
create_bucket(bucket="round-trip")
upload_object(bucket="round-trip", key="notes/a.csv", content="x,y\\n1,2", metadata={"by": "test"})
copy_object(bucket="round-trip", key="notes/a.csv", targetBucket="round-trip", targetKey="b.csv")
listed = list_objects(bucket="round-trip", recursive=False)
about = get_object_metadata(bucket="round-trip", key="notes/a.csv")
read = download_object(bucket="round-trip", key="b.csv")
part = download_object(bucket="round-trip", key="b.csv", offset=2, length=3)
delete_objects(bucket="round-trip", keys=["b.csv", "notes/a.csv"])
left = list_objects(bucket="round-trip")["objects"]
delete_bucket(bucket="round-trip")
buckets = [bucket["name"] for bucket in list_buckets()["buckets"]]
keys = [each["key"] for each in listed["objects"]]
print(json.dumps([keys, listed["prefixes"], about["contentType"], about["metadata"], read["content"], read["size"],
                  part["content"], part["bytes"], left, "round-trip" in buckets]))
"""
    assert await printed(api, IMPORTS + program) == [
        ["b.csv"],
        ["notes/"],
        "text/csv",
        {"by": "test"},
        "x,y\n1,2",
        7,
        "y\n1",
        3,
        [],
        False,
    ]


async def test_bytes_that_are_no_text_come_back_as_they_were(api: Api) -> None:
    program = """
import base64
create_bucket(bucket="binary")
given = base64.b64encode(bytes(range(256))).decode()
upload_object(bucket="binary", key="all.bin", content=given, encoding="base64")
upload_object(bucket="binary", key="empty", content="")
read = download_object(bucket="binary", key="all.bin")
empty = download_object(bucket="binary", key="empty")
print(json.dumps([read["encoding"], read["content"] == given, read["size"], empty["content"], empty["size"]]))
"""
    assert await printed(api, IMPORTS + program) == ["base64", True, 256, "", 0]


async def test_a_long_listing_is_read_page_by_page(api: Api) -> None:
    program = """
create_bucket(bucket="pages")
for number in range(7):
    upload_object(bucket="pages", key=f"{number}.txt", content=str(number))
pages, start = [], ""
while True:
    page = list_objects(bucket="pages", limit=3, startAfter=start)
    pages.append([each["key"][0] for each in page["objects"]])
    if not page["more"]:
        break
    start = page["objects"][-1]["key"]
print(json.dumps(pages))
"""
    assert await printed(api, IMPORTS + program) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('list_objects(bucket="no-such-bucket")', "There is no bucket no-such-bucket; create_bucket makes one."),
        ('upload_object(bucket="no-such-bucket", key="a", content="")', "There is no bucket no-such-bucket"),
        ('download_object(bucket="kept", key="b")', "There is no object b in the bucket kept"),
        ('get_object_metadata(bucket="kept", key="b")', "There is no object b in the bucket kept"),
        ('create_bucket(bucket="kept")', "There is a bucket kept already."),
        ('create_bucket(bucket="No Bucket")', "Invalid bucket name No Bucket."),
        ('delete_bucket(bucket="kept")', "The bucket kept still holds objects"),
        ('upload_object(bucket="kept", key="c", content="?", encoding="base64")', "`content` must be base64"),
    ],
)
async def test_what_fails_is_an_error_that_says_what_to_do(api: Api, call: str, error: str) -> None:
    prepare = (
        'if "kept" not in [each["name"] for each in list_buckets()["buckets"]]:\n'
        '    create_bucket(bucket="kept")\n    upload_object(bucket="kept", key="a", content="a")\n'
    )
    result = await api.python(f"{IMPORTS}{prepare}{call}")
    assert result["outcome"] == "failed"
    assert error in result["stderr"]
