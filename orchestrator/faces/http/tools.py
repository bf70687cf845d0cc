"""Progressive disclosure of the tools, each reply with what it costs and saves in tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web
from pydantic import Field

from orchestrator.catalog.disclosure import Detail, compact
from orchestrator.catalog.queries import MAX_QUERIES, MAX_QUERY_CHARACTERS
from orchestrator.catalog.replies import Reply
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import SKILLS, Decision
from orchestrator.domain.tools import Tool
from orchestrator.faces.bodies import Body
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply
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
    scores: bool = Field(False, description="Whether to tell how well each fits.")


class RoleAccess(Body):
    """Whether a role may call a tool, and by which rule of roles.json."""

    role: str
    allowed: bool
    rule: str
    keys: list[str] = Field(description="The names of its keys.")


class ToolAccess(Body):
    """Who may call a tool: your own role, or every role for one that sees all executions."""

    server: str
    tool: str
    roles: list[RoleAccess]


async def list_tools(request: web.Request, query: ToolsQuery) -> web.Response:
    async with _turn(request):
        return _json(await _toolbox(request).listing(request[CALLER].role, query.detail, query.server, _own(request)))


async def search_tools(request: web.Request, query: SearchQuery) -> web.Response:
    role, toolbox = request[CALLER].role, _toolbox(request)
    async with _turn(request):
        found = await toolbox.search(
            role,
            query.q,
            query.detail,
            server=query.server,
            limit=query.limit,
            with_scores=query.scores,
            own=_own(request),
        )
        return _json(found)


async def tool_costs(request: web.Request, query: Query) -> web.Response:
    role = request[CALLER].role
    async with _turn(request):
        here = await asyncio.to_thread(request.app[SERVICES].own_tokens, role)
        return _json(await _toolbox(request).costs(role, here))


NO_SUCH_SKILL = Decision(False, "there is no such skill that the role may use")


async def tool_access(request: web.Request, query: Query) -> web.Response:
    """Tell who may call a tool; of one that the caller does not see, only whether its own role may."""
    server, tool, caller = request.match_info["server"], request.match_info["tool"], request[CALLER]
    book = request.app[SERVICES].held_configuration().book
    roles = list(book.roles.values()) if caller.role.sees_all_executions else [caller.role]
    skill = request.app[SERVICES].skills.shelf.reach.tool(f"{server}/{tool}") if server == SKILLS else None
    requires = skill.skill.requires if skill is not None and skill.skill is not None else ()
    decisions = [(role, role.decide(server, tool, requires)) for role in roles]
    if server == SKILLS and skill is None:
        decisions = [(role, NO_SUCH_SKILL) for role in roles]
    elif server == SKILLS and not caller.role.sees_all_executions and not decisions[0][1].allowed:
        decisions = [(caller.role, NO_SUCH_SKILL)]
    return json_reply(
        ToolAccess(
            server=server,
            tool=tool,
            roles=[
                RoleAccess(
                    role=role.name,
                    allowed=decision.allowed,
                    rule=decision.rule,
                    keys=list(book.keys_of(role.name)) if caller.role.sees_all_executions else [caller.key_name],
                )
                for role, decision in decisions
            ],
        )
    )


async def tool_info(request: web.Request, query: Query) -> web.Response:
    match = request.match_info
    async with _turn(request):
        role = request[CALLER].role
        return _json(await _toolbox(request).info(role, match["server"], match["tool"], _own(request)))


def _own(request: web.Request) -> Sequence[Tool]:
    caller = request[CALLER]
    return request.app[SERVICES].skills.shelf.own_tools(caller, caller.role)


def _toolbox(request: web.Request) -> Toolbox:
    return request.app[SERVICES].toolbox


def _turn(request: web.Request) -> Reservation:
    return request.app[SERVICES].questions.reserve(request[CALLER].key_name, 1)


def _json(reply: Reply) -> web.Response:
    # Written as it was counted: without a space that would cost a token.
    return web.json_response(reply, dumps=compact)
