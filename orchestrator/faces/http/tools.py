"""Progressive disclosure of the tools, each reply with what it costs and saves in tokens."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from orchestrator.catalog.disclosure import Detail, compact
from orchestrator.catalog.queries import MAX_QUERIES, MAX_QUERY_CHARACTERS
from orchestrator.catalog.replies import Reply
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import Query
from orchestrator.service.budget import Reservation


class ToolsQuery(Query):
    detail: Detail = Field(Detail.NAME, description="How much to tell of each tool, `name` by default.")
    server: str | None = Field(None, max_length=256, description="Only tools of this server.")


class SearchQuery(ToolsQuery):
    q: list[str] = Field(
        [],
        description="What is looked for, in words or by name; repeat it for several wishes at once,"
        f" up to {MAX_QUERIES} with {MAX_QUERY_CHARACTERS} characters in all.",
    )
    detail: Detail = Field(Detail.DESCRIPTION, description="How much to tell of each tool, `description` by default.")
    limit: int = Field(10, ge=1, le=100, description="How many, 10 by default.")


async def list_tools(request: web.Request, query: ToolsQuery) -> web.Response:
    async with _turn(request):
        return _json(await _toolbox(request).listing(request[CALLER].role, query.detail, query.server))


async def search_tools(request: web.Request, query: SearchQuery) -> web.Response:
    role, toolbox = request[CALLER].role, _toolbox(request)
    async with _turn(request):
        return _json(await toolbox.search(role, query.q, query.detail, server=query.server, limit=query.limit))


async def tool_info(request: web.Request, query: Query) -> web.Response:
    match = request.match_info
    async with _turn(request):
        return _json(await _toolbox(request).info(request[CALLER].role, match["server"], match["tool"]))


def _toolbox(request: web.Request) -> Toolbox:
    return request.app[SERVICES].toolbox


def _turn(request: web.Request) -> Reservation:
    return request.app[SERVICES].questions.reserve(request[CALLER].key_name, 1)


def _json(reply: Reply) -> web.Response:
    # Written as it was counted: without a space that would cost a token.
    return web.json_response(reply, dumps=compact)
