"""The files that last from one execution to the next: what there is, what there was, and going back to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

from aiohttp import web
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.files import Version, require_workspace_name
from orchestrator.faces.bodies import Body, FileBody, VersionBody
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.downloads import send_file
from orchestrator.faces.http.files import Deleted, file_name
from orchestrator.faces.http.requests import Query, parse_body
from orchestrator.faces.http.route import json_reply
from orchestrator.service.workspaces import chosen

VersionId = Annotated[str, Field(min_length=1, max_length=64, description="The execution that made the version.")]


class VersionQuery(Query):
    version: Annotated[
        str | None,
        Field(min_length=1, max_length=64, description="The execution that made the version; the newest if absent."),
    ] = None


class RestoreRequest(Body):
    """Which version is to be the newest again."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)

    version: VersionId


class WorkspaceBody(VersionBody):
    """A workspace as it is now."""

    name: str

    @classmethod
    def of(cls, version: Version) -> WorkspaceBody:
        return cls.model_construct(name=version.workspace, **dict(VersionBody.of(version)))


class WorkspaceList(Body):
    """The workspaces that you have or share, the last one used first."""

    workspaces: list[WorkspaceBody]


class WorkspaceDetail(Body):
    """A workspace with its versions, newest first, and the files of one of them."""

    name: str
    versions: list[VersionBody]
    version: str = Field(description="The version whose files are listed.")
    files: list[FileBody]


async def list_workspaces(request: web.Request, query: Query) -> web.Response:
    services, caller = request.app[SERVICES], request[CALLER]
    async with services.questions.reserve(caller.key_name, 1):
        return await asyncio.to_thread(_listed, await services.workspaces.newest(caller))


async def get_workspace(request: web.Request, query: VersionQuery) -> web.Response:
    name = _name(request)
    services, caller = request.app[SERVICES], request[CALLER]
    async with services.questions.reserve(caller.key_name, 1):
        return await asyncio.to_thread(_detail, name, await services.workspaces.versions(caller, name), query.version)


# Each is written on a thread, of which callers take turns: there may be thousands of files, and their digests.


def _listed(found: Sequence[Version]) -> web.Response:
    return json_reply(WorkspaceList.model_construct(workspaces=[WorkspaceBody.of(version) for version in found]))


def _detail(name: str, versions: Sequence[Version], version: str | None) -> web.Response:
    shown = chosen(versions, version)
    suffix = f"?version={quote(shown.execution_id, safe='')}" if version is not None else ""
    files = [FileBody.of(file, f"/workspaces/{name}/files") for file in shown.files]
    detail = WorkspaceDetail.model_construct(
        name=name,
        versions=[VersionBody.of(each) for each in versions],
        version=shown.execution_id,
        files=[file.model_copy(update={"url": f"{file.url}{suffix}"}) for file in files] if suffix else files,
    )
    return json_reply(detail)


async def get_workspace_file(request: web.Request, query: VersionQuery) -> web.StreamResponse:
    workspaces, file = request.app[SERVICES].workspaces, file_name(request.match_info["file"])
    stored = await workspaces.file(request[CALLER], _name(request), file, query.version)
    return await send_file(request, stored)


async def restore(request: web.Request, query: Query) -> web.Response:
    body = await parse_body(request, RestoreRequest)
    restored = await request.app[SERVICES].workspaces.restore(request[CALLER], _name(request), body.version)
    return json_reply(WorkspaceBody.of(restored))


async def delete_workspace(request: web.Request, query: Query) -> web.Response:
    deleted = await request.app[SERVICES].workspaces.delete(request[CALLER], _name(request))
    return json_reply(Deleted(deleted=deleted))


def _name(request: web.Request) -> str:
    return require_workspace_name(request.match_info["name"])
