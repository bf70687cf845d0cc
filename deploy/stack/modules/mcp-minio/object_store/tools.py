"""The tools: their descriptions, what they take and what they return."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from object_store.store import Refused, Store, as_text

T = TypeVar("T")

MAX_LISTED = 1000
# What a tool returns at once; more is read in parts.
MAX_BYTES = 8 * 1024 * 1024
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

BucketName = Annotated[
    str, Field(description="Name of the bucket: 3 to 63 lower-case letters, digits, dots and hyphens")
]
Key = Annotated[str, Field(description="Name of the object in its bucket, such as reports/2026/may.csv")]
Encoding = Literal["text", "base64"]


class Bucket(BaseModel):
    name: str
    created: str | None


class Buckets(BaseModel):
    buckets: list[Bucket]


class Created(BaseModel):
    bucket: str


class Dropped(BaseModel):
    bucket: str
    deletedObjects: int  # noqa: N815  # as programs see it


class Entry(BaseModel):
    key: str
    bytes: int
    modified: str | None
    etag: str


class Objects(BaseModel):
    objects: list[Entry]
    prefixes: list[str] = Field(description="What would be directories, if recursive is false")
    more: bool = Field(description="Whether there are others after the last one; go on with startAfter")


class Uploaded(BaseModel):
    bucket: str
    key: str
    bytes: int
    etag: str


class Downloaded(BaseModel):
    content: str
    encoding: Encoding = Field(description="text if the bytes are UTF-8, otherwise base64")
    bytes: int = Field(description="How many bytes are in content")
    size: int = Field(description="How many bytes the whole object has")
    contentType: str  # noqa: N815


class Metadata(BaseModel):
    key: str
    bytes: int
    modified: str | None
    etag: str
    contentType: str  # noqa: N815
    metadata: dict[str, str]


class Deleted(BaseModel):
    deleted: int


def server(store: Store) -> MCPServer[Any]:
    tools: MCPServer[Any] = MCPServer("minio", log_level="ERROR")

    @tools.tool(annotations=READS)
    async def list_buckets() -> Buckets:
        """List the buckets of the object store."""
        return Buckets(buckets=[Bucket(name=name, created=when(at)) for name, at in await ask(store.buckets())])

    @tools.tool(annotations=ADDS)
    async def create_bucket(bucket: BucketName) -> Created:
        """Create a bucket in the object store; fails if there is one of that name."""
        await ask(store.create(bucket))
        return Created(bucket=bucket)

    @tools.tool(annotations=CHANGES)
    async def delete_bucket(
        bucket: BucketName, force: Annotated[bool, Field(description="Delete its objects, too")] = False
    ) -> Dropped:
        """Delete a bucket; unless forced, only an empty one."""
        return Dropped(bucket=bucket, deletedObjects=await ask(store.drop(bucket, force)))

    @tools.tool(annotations=READS)
    async def list_objects(
        bucket: BucketName,
        prefix: Annotated[str, Field(description="Only those whose key begins with it")] = "",
        recursive: Annotated[bool, Field(description="Whether to look below prefixes that end with a slash")] = True,
        startAfter: Annotated[str, Field(description="Only those after this key")] = "",  # noqa: N803
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    ) -> Objects:
        """List the objects of a bucket by their keys, with sizes and times."""
        found = await ask(store.listing(bucket, prefix, startAfter, recursive, limit))
        return Objects(objects=[entry(each) for each in found.objects], prefixes=found.prefixes, more=found.more)

    @tools.tool(annotations=CHANGES)
    async def upload_object(
        bucket: BucketName,
        key: Key,
        content: Annotated[str, Field(description="Text, or bytes in base64 if encoding says so")],
        encoding: Encoding = "text",
        contentType: Annotated[str | None, Field(description="By default told from the key, such as text/csv")] = None,  # noqa: N803
        metadata: Annotated[dict[str, str] | None, Field(description="Names and values to keep with it")] = None,
    ) -> Uploaded:
        """Upload an object to a bucket, replacing one of the same key."""
        data = decoded(content, encoding)
        kind = contentType or mimetypes.guess_type(key)[0] or default_type(encoding)
        etag = await ask(store.put(bucket, key, data, kind, metadata or {}))
        return Uploaded(bucket=bucket, key=key, bytes=len(data), etag=etag)

    @tools.tool(annotations=READS)
    async def download_object(
        bucket: BucketName,
        key: Key,
        offset: Annotated[int, Field(ge=0, description="Where to begin, in bytes")] = 0,
        length: Annotated[int, Field(ge=1, le=MAX_BYTES, description="How many bytes at most")] = MAX_BYTES,
    ) -> Downloaded:
        """Download an object, or a part of it, as text or base64."""
        found = await ask(store.get(bucket, key, offset, length))
        content, encoding = as_text(found.data)
        return Downloaded.model_validate(
            {
                "content": content,
                "encoding": encoding,
                "bytes": len(found.data),
                "size": found.size,
                "contentType": found.content_type,
            }
        )

    @tools.tool(annotations=READS)
    async def get_object_metadata(bucket: BucketName, key: Key) -> Metadata:
        """Return size, time, type and metadata of an object without its content."""
        about = await ask(store.about(bucket, key))
        own = {name[len("x-amz-meta-") :]: value for name, value in about.metadata.items() if is_own(name)}
        kind = about.content_type or "application/octet-stream"
        return Metadata(**entry(about).model_dump(), contentType=kind, metadata=own)

    @tools.tool(annotations=CHANGES)
    async def copy_object(bucket: BucketName, key: Key, targetBucket: BucketName, targetKey: Key) -> Uploaded:  # noqa: N803
        """Copy an object within the store, replacing one of the target's key."""
        etag = await ask(store.copy((bucket, key), (targetBucket, targetKey)))
        about = await ask(store.about(targetBucket, targetKey))
        return Uploaded(bucket=targetBucket, key=targetKey, bytes=int(about.size or 0), etag=etag)

    @tools.tool(annotations=CHANGES)
    async def delete_objects(
        bucket: BucketName, keys: Annotated[list[str], Field(min_length=1, max_length=MAX_LISTED)]
    ) -> Deleted:
        """Delete objects by their keys; a key that does not exist is no error."""
        await ask(store.remove(bucket, keys))
        return Deleted(deleted=len(keys))

    return tools


async def ask(work: Awaitable[T]) -> T:
    try:
        return await work
    except Refused as refused:
        raise ToolError(str(refused)) from refused


def entry(found: Any) -> Entry:
    return Entry(
        key=found.object_name,
        bytes=int(found.size or 0),
        modified=when(found.last_modified),
        etag=(found.etag or "").strip('"'),
    )


def decoded(content: str, encoding: Encoding) -> bytes:
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise ToolError("`content` must be base64, because `encoding` says so.") from error


def default_type(encoding: Encoding) -> str:
    return "text/plain" if encoding == "text" else "application/octet-stream"


def is_own(name: str) -> bool:
    return name.lower().startswith("x-amz-meta-")


def when(time: datetime | None) -> str | None:
    return time.isoformat() if time else None
