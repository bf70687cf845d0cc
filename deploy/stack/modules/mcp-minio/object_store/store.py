"""What the tools ask of the store. The client blocks, so each call is on a thread."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import urllib3
from minio import Minio
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject
from minio.error import MinioException, S3Error

P = ParamSpec("P")
T = TypeVar("T")

ADVICE = {
    "NoSuchBucket": "There is no bucket {bucket}; create_bucket makes one.",
    "NoSuchKey": "There is no object {key} in the bucket {bucket}; list_objects tells which there are.",
    "BucketNotEmpty": "The bucket {bucket} still holds objects; delete them first, or delete it with force.",
    "BucketAlreadyOwnedByYou": "There is a bucket {bucket} already.",
    "BucketAlreadyExists": "There is a bucket {bucket} already.",
}


class Refused(Exception):
    """The store does not do it; the message says why."""


@dataclass(frozen=True, slots=True)
class Listing:
    objects: list[Any]
    prefixes: list[str]
    more: bool


@dataclass(frozen=True, slots=True)
class Content:
    data: bytes
    size: int
    content_type: str


def on_a_thread(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    @wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except S3Error as error:
            # The store's own words are no template: they may hold a key, and so any character.
            advice = ADVICE.get(error.code or "", "").format(bucket=error.bucket_name, key=error.object_name)
            raise Refused(advice or f"{error.message} ({error.code})") from error
        except (MinioException, urllib3.exceptions.HTTPError) as error:
            raise Refused(f"The store does not answer as it should: {error}") from error
        except ValueError as error:  # the client's own judgement of a name
            message = str(error)
            raise Refused(f"{message[:1].upper()}{message[1:]}.") from error

    return call


@dataclass(frozen=True, slots=True)
class Store:
    client: Minio

    @on_a_thread
    def buckets(self) -> list[tuple[str, datetime | None]]:
        return [(bucket.name, bucket.creation_date) for bucket in self.client.list_buckets()]

    @on_a_thread
    def create(self, bucket: str) -> None:
        self.client.make_bucket(bucket)

    @on_a_thread
    def drop(self, bucket: str, force: bool) -> int:
        """Delete the bucket and return how many objects went with it."""
        names = [found.object_name for found in self.client.list_objects(bucket, recursive=True)] if force else []
        self._remove(bucket, names)
        self.client.remove_bucket(bucket)
        return len(names)

    @on_a_thread
    def listing(self, bucket: str, prefix: str, start_after: str, recursive: bool, limit: int) -> Listing:
        found = self.client.list_objects(bucket, prefix=prefix, recursive=recursive, start_after=start_after or None)
        first = list(itertools.islice(found, limit + 1))
        shown = first[:limit]
        prefixes = [each.object_name for each in shown if each.is_dir]
        return Listing([each for each in shown if not each.is_dir], prefixes, len(first) > limit)

    @on_a_thread
    def put(self, bucket: str, key: str, data: bytes, content_type: str, metadata: dict[str, str]) -> str:
        """Write an object and return its tag."""
        # Some stores would make the bucket, and a slip of the pen would make one, too.
        if not self.client.bucket_exists(bucket):
            raise Refused(ADVICE["NoSuchBucket"].format(bucket=bucket))
        length = len(data)
        written = self.client.put_object(bucket, key, io.BytesIO(data), length, content_type, {**metadata})
        return written.etag or ""

    @on_a_thread
    def get(self, bucket: str, key: str, offset: int, length: int) -> Content:
        about = self.client.stat_object(bucket, key)
        size = int(about.size or 0)
        wanted = min(length, max(size - offset, 0))
        # A range of nothing is no range, and an empty object has none.
        data = self._part(bucket, key, offset, wanted) if wanted else b""
        return Content(data, size, about.content_type or "application/octet-stream")

    @on_a_thread
    def about(self, bucket: str, key: str) -> Any:
        return self.client.stat_object(bucket, key)

    @on_a_thread
    def copy(self, source: tuple[str, str], target: tuple[str, str]) -> str:
        return self.client.copy_object(*target, CopySource(*source)).etag or ""

    @on_a_thread
    def remove(self, bucket: str, keys: Iterable[str]) -> None:
        self._remove(bucket, keys)

    def _part(self, bucket: str, key: str, offset: int, length: int) -> bytes:
        response = self.client.get_object(bucket, key, offset=offset, length=length)
        try:
            return bytes(response.data)
        finally:
            response.close()
            response.release_conn()

    def _remove(self, bucket: str, keys: Iterable[str]) -> None:
        failed = list(self.client.remove_objects(bucket, map(DeleteObject, keys)))
        if failed:
            raise Refused(f"{len(failed)} objects could not be deleted, first {failed[0].name}: {failed[0].message}")


def as_text(data: bytes) -> tuple[str, str]:
    """Return the content with its encoding: text where it is text, otherwise base64."""
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"
