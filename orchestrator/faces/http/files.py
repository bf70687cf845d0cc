"""The files that executions left, and what callers send in advance."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Annotated

from aiohttp import web
from pydantic import Field

from orchestrator.domain.errors import FileNotFound, InvalidRequest, UnsupportedContentType
from orchestrator.domain.files import SHA256, Upload, UploadPlace, is_name
from orchestrator.faces.bodies import Body, FileBody, files_path, iso
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.downloads import send_file
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply
from orchestrator.service.complaints import MUST_BE

# As RFC 9530 writes it, among other hashes.
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{1,100}):\s*(?=,|$|;)")
_DIGEST_HEADERS = ("Content-Digest", "Repr-Digest")
_PLACE = rf"^[0-9]{{1,15}}\.[0-9]{{1,20}}-{SHA256.pattern}$"
MOST_LISTED = 500


class UploadQuery(Query):
    sha256: Annotated[
        str | None,
        Field(
            pattern=f"^{SHA256.pattern}$",
            description="The hash of what is sent, in hexadecimal; something else is refused.",
            json_schema_extra={MUST_BE: "64 hexadecimal digits, in lower case"},
        ),
    ] = None


class FileList(Body):
    """What an execution left."""

    files: list[FileBody]


class UploadBody(Body):
    """Content that you have sent; an execution takes it by its hash."""

    sha256: str
    bytes: int
    uploaded_at: str = Field(description="ISO 8601, UTC.")
    url: str = Field(description="Path of this description.")

    @classmethod
    def of(cls, upload: Upload) -> UploadBody:
        return cls(
            sha256=upload.sha256,
            bytes=upload.bytes,
            uploaded_at=iso(upload.uploaded_at),
            url=f"/files/{upload.sha256}",
        )


class UploadsQuery(Query):
    limit: int = Field(MOST_LISTED, ge=1, le=MOST_LISTED, description=f"How many, {MOST_LISTED} by default.")
    before: str | None = Field(
        None,
        pattern=_PLACE,
        description="The `next` of the previous page.",
        json_schema_extra={MUST_BE: "the `next` of the previous page"},
    )

    @property
    def place(self) -> UploadPlace | None:
        at, _, sha256 = (self.before or "").partition("-")
        return (float(at), sha256) if sha256 else None


class UploadList(Body):
    """A page of what you have sent, newest first."""

    files: list[UploadBody]
    next: str | None = Field(description="Pass as `before` to read on; null at the end.")


class Deleted(Body):
    """How much was deleted."""

    deleted: int


async def list_files(request: web.Request, query: Query) -> web.Response:
    execution_id = request.match_info["id"]
    files = await request.app[SERVICES].files.of_execution(request[CALLER], execution_id)
    return json_reply(FileList(files=[FileBody.of(file, files_path(execution_id)) for file in files]))


async def get_file(request: web.Request, query: Query) -> web.StreamResponse:
    name = _name(request)
    stored = await request.app[SERVICES].files.of_execution_named(request[CALLER], request.match_info["id"], name)
    return await send_file(request, stored)


async def delete_files(request: web.Request, query: Query) -> web.Response:
    deleted = await request.app[SERVICES].files.delete(request[CALLER], request.match_info["id"])
    return json_reply(Deleted(deleted=deleted))


async def delete_file(request: web.Request, query: Query) -> web.Response:
    deleted = await request.app[SERVICES].files.delete(request[CALLER], request.match_info["id"], _name(request))
    return json_reply(Deleted(deleted=deleted))


async def upload(request: web.Request, query: UploadQuery) -> web.Response:
    """Take in a file as it comes; one that breaks off leaves nothing."""
    if request.content_type.startswith("multipart/"):
        raise UnsupportedContentType("A file is sent as it is, not as a form: curl --data-binary @FILE does that.")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedContentType("A file is sent as it is, without a Content-Encoding.")
    services, caller = request.app[SERVICES], request[CALLER]
    expected = _expected_digest(request, query)
    with services.uploads.one(request, caller.key_name) as pieces:
        announced = request.content_length or 0
        taken = UploadBody.of(await services.files.upload(caller, pieces, expected, announced))
    reply = json_reply(taken, 201)
    reply.headers["Location"] = taken.url
    return reply


async def list_uploads(request: web.Request, query: UploadsQuery) -> web.Response:
    uploads = await request.app[SERVICES].files.uploads(request[CALLER], query.limit, query.place)
    following = "{!r}-{}".format(*uploads[-1].place) if len(uploads) == query.limit else None
    return json_reply(UploadList(files=[UploadBody.of(each) for each in uploads], next=following))


async def get_upload(request: web.Request, query: Query) -> web.Response:
    return json_reply(UploadBody.of(await request.app[SERVICES].files.uploaded(request[CALLER], _sha256(request))))


async def delete_upload(request: web.Request, query: Query) -> web.Response:
    await request.app[SERVICES].files.delete_upload(request[CALLER], _sha256(request))
    return json_reply(Deleted(deleted=1))


def file_name(name: str) -> str:
    """Return the name of a file as it stands in a path; what no file can be called is not there."""
    if not is_name(name):
        raise FileNotFound("There is no file of that name.")
    return name


def _name(request: web.Request) -> str:
    return file_name(request.match_info["name"])


def _sha256(request: web.Request) -> str:
    if not SHA256.fullmatch(sha256 := request.match_info["sha256"]):
        raise FileNotFound("An upload is named by its SHA-256: 64 hexadecimal digits, in lower case.")
    return sha256


def _expected_digest(request: web.Request, query: UploadQuery) -> str | None:
    """Return the hash that was announced, in whatever way; those who announce several must mean one."""
    announced = {query.sha256} if query.sha256 is not None else set[str]()
    for header in _DIGEST_HEADERS:
        for encoded in _DIGEST.findall(",".join(request.headers.getall(header, ()))):
            try:
                digest = b64decode(encoded, validate=True).hex()
            except binascii.Error:
                digest = ""
            if not SHA256.fullmatch(digest):
                raise InvalidRequest(f"`{header}` must have a SHA-256 as sha-256=:BASE64:.")
            announced.add(digest)
    if len(announced) > 1:
        raise InvalidRequest("The hashes that you announce differ: send one.")
    return announced.pop() if announced else None
