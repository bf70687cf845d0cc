"""Keep the rows of a query as JSON objects in a bucket, and write only what changed."""

import json
import re
from hashlib import md5
from typing import Any

from servers.minio import list_buckets, list_objects, upload_object
from servers.postgres import execute_sql

DEFAULT_ROWS = 200
MAX_ROWS = 500
MAX_LISTED = 10_000
MAX_OBJECT_BYTES = 1_000_000


def run(input: dict[str, Any]) -> dict[str, Any]:
    bucket, prefix, dry_run = input["bucket"], input.get("prefix", ""), input.get("dryRun", True)
    limit = input.get("limit", DEFAULT_ROWS)
    if not 1 <= limit <= MAX_ROWS:
        raise ValueError(f"`limit` must be between 1 and {MAX_ROWS}.")
    # One row more than wanted tells whether there are others.
    found = execute_sql(sql=f"select * from (\n{one_query(input['sql'])}\n) as query limit {limit + 1}")
    wanted = objects_of(found[:limit], input["keyColumn"], prefix)

    exists = bucket in [each["name"] for each in list_buckets()["buckets"]]
    if not exists and not dry_run:
        raise ValueError(f"`bucket` must exist; make {bucket} with minio/create_bucket first.")
    etags = etags_of(bucket, prefix) if exists else {}

    # The ETag of an object that was uploaded in one piece is its MD5. Any other just makes it be written again.
    changed = [key for key, content in wanted.items() if etags.get(key) != etag_of(content)]
    if not dry_run:
        for key in changed:
            upload_object(bucket=bucket, key=key, content=wanted[key], contentType="application/json")
    return {
        "rows": len(wanted),
        "new": [key for key in changed if key not in etags],
        "changed": [key for key in changed if key in etags],
        "unchanged": len(wanted) - len(changed),
        "written": 0 if dry_run else len(changed),
        "note": f"Only the first {limit} rows were taken; raise `limit` for more." if len(found) > limit else "",
    }


def one_query(sql: str) -> str:
    statement = sql.strip().removesuffix(";")
    if not re.match(r"(select|with)\b", statement, re.IGNORECASE) or ";" in statement:
        raise ValueError(
            "`sql` must be one statement that begins with select or with; only its end may have a semicolon."
        )
    return statement


def objects_of(rows: list[Any], key_column: str, prefix: str) -> dict[str, str]:
    objects: dict[str, str] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError("`sql` must return values that JSON has; cast NaN and infinite numbers to text.")
        if key_column not in row:
            raise ValueError(f"`sql` must return the column {key_column}, as `keyColumn` says.")
        name = str(row[key_column])
        if row[key_column] is None or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", name):
            raise ValueError(
                f"`keyColumn` must have values of letters, digits, dots, hyphens and underscores; it has {name!r}."
            )
        key = f"{prefix}{name}.json"
        if key in objects:
            raise ValueError(f"`keyColumn` must have a different value in each row; {name} is there twice.")
        objects[key] = json.dumps(row, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        if len(objects[key].encode()) > MAX_OBJECT_BYTES:
            raise ValueError(f"`sql` must return rows of at most {MAX_OBJECT_BYTES} bytes; {name} has more.")
    return dict(sorted(objects.items()))


def etags_of(bucket: str, prefix: str) -> dict[str, str]:
    etags: dict[str, str] = {}
    page = list_objects(bucket=bucket, prefix=prefix)
    while True:
        etags |= {each["key"]: each["etag"] for each in page["objects"]}
        if not page["more"]:
            return etags
        if len(etags) >= MAX_LISTED:
            raise ValueError(
                f"`prefix` must have fewer than {MAX_LISTED} objects in the bucket; choose a narrower one."
            )
        page = list_objects(bucket=bucket, prefix=prefix, startAfter=page["objects"][-1]["key"])


def etag_of(content: str) -> str:
    return md5(content.encode(), usedforsecurity=False).hexdigest()
