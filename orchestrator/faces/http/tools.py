"""Progressive disclosure of the tools, each reply with what it costs and saves in tokens."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import Field, StringConstraints

from orchestrator.catalog.disclosure import Detail, compact
from orchestrator.catalog.replies import Reply
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import Query

MAX_QUERY_CHARACTERS = 4096


class ToolsQuery(Query):
    detail: Detail = Field(Detail.NAME, description="How much to tell of each tool, `name` by default.")
    server: str | None = Field(None, max_length=256, description="Only tools of this server.")


class SearchQuery(ToolsQuery):
    q: list[Annotated[str, StringConstraints(max_length=MAX_QUERY_CHARACTERS)]] = Field(
        [], description="What is looked for, in words or by name; repeat it for several wishes at once."
    )
    detail: Detail = Field(Detail.DESCRIPTION, description="How much to tell of each tool, `description` by default.")
    limit: int = Field(10, ge=1, le=100, description="How many, 10 by default.")


async def list_tools(request: web.Request, query: ToolsQuery) -> web.Response:
    role = request[CALLER].role
    return _json(request.app[SERVICES].toolbox.listing(role, query.detail, query.server))


async def search_tools(request: web.Request, query: SearchQuery) -> web.Response:
    wishes = [wish for wish in query.q if wish.strip()]
    role, toolbox = request[CALLER].role, request.app[SERVICES].toolbox
    return _json(toolbox.search(role, wishes, query.detail, server=query.server, limit=query.limit))


async def tool_info(request: web.Request, query: Query) -> web.Response:
    match = request.match_info
    return _json(request.app[SERVICES].toolbox.info(request[CALLER].role, match["server"], match["tool"]))


def _json(reply: Reply) -> web.Response:
    # Written as it was counted: without a space that would cost a token.
    return web.json_response(reply, dumps=compact)
