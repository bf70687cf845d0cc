"""For operators: health, readiness, metrics, and the description of the API itself."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field

from orchestrator.domain.errors import NotForYourRole
from orchestrator.domain.sandbox import Finding, Verdict
from orchestrator.faces.auth import presented_key
from orchestrator.faces.bodies import Body, iso
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.openapi import DOCUMENT
from orchestrator.faces.http.problems import Problem, problem_of
from orchestrator.faces.http.requests import JSON, Query
from orchestrator.faces.http.route import json_reply


class Health(Body):
    """How the daemon is, and which tools it has."""

    status: Literal["healthy", "degraded"]
    version: str
    uptime: float = Field(description="Seconds since the daemon started.")
    servers: int
    total_tools: int
    tools_by_server: dict[str, int]
    upstreams: dict[str, str] = Field(description="State of each server, with its problem.")


class Alive(Body):
    """The daemon runs."""

    status: Literal["alive"] = "alive"


class FindingBody(Body):
    """Something that sandboxes need of the engine or the host, what it is like here, and how to mend it."""

    check: str
    verdict: Verdict
    detail: str
    fix: str = Field(description="What to do; empty if nothing needs to be done.")

    @classmethod
    def of(cls, finding: Finding) -> FindingBody:
        return cls(check=finding.check, verdict=finding.verdict, detail=finding.detail, fix=finding.fix)


Findings = Annotated[
    list[FindingBody] | None,
    Field(description="What the engine and the host give and what they do not; only for a request with a key."),
]


class Ready(Body):
    """An execution would work now."""

    status: Literal["ready"] = "ready"
    findings: Findings = None


class Unready(Problem):
    """Why an execution would not work now."""

    findings: Findings = None


class ToolRules(Body):
    """Patterns of tools, as SERVER/TOOL."""

    allow: list[str]
    deny: list[str]


class WhoAmI(Body):
    """The caller and what its role may use."""

    caller: str
    role: str
    servers: list[str] = Field(description="Names of servers; * is every server.")
    tools: ToolRules
    sees_all_executions: bool
    approves_skills: bool = Field(description="Whether the role may approve the skills of others.")
    chat_rooms: list[str]
    shared_workspaces: list[str] = Field(description="Patterns of workspaces that all keys of the role share.")
    session_expires_at: str | None = Field(description="When the session ends; null with a key. ISO 8601, UTC.")
    features: list[str] = Field(description="Optional parts that this daemon has.")


async def health(request: web.Request, query: Query) -> web.Response:
    services = request.app[SERVICES]
    by_server = services.catalog.tools_by_server()
    body = Health(
        status="healthy" if services.readiness.ready else "degraded",
        version=services.version,
        uptime=round(time.monotonic() - services.started_at, 3),
        servers=len(by_server),
        total_tools=sum(by_server.values()),
        tools_by_server=by_server,
        upstreams={
            status.server: f"{status.state.value}: {status.problem}" if status.problem else status.state.value
            for status in services.catalog.statuses()
        },
    )
    return json_reply(body)


async def livez(request: web.Request, query: Query) -> web.Response:
    return json_reply(Alive())


async def readyz(request: web.Request, query: Query) -> web.Response:
    """Answer from memory, whatever the engine does: others decide by it whether the daemon is alive."""
    services = request.app[SERVICES]
    findings = None
    if CALLER in request:  # no key, no details
        findings = [FindingBody.of(finding) for finding in services.readiness.findings]
    problem = services.readiness.problem
    if problem is None:
        body = Ready(findings=findings)
        return web.Response(text=body.model_dump_json(by_alias=True, exclude_none=True), content_type=JSON)
    more = {} if findings is None else {"findings": [each.model_dump(by_alias=True) for each in findings]}
    response = problem_of(problem, None, more)
    response.set_status(503)
    return response


async def whoami(request: web.Request, query: Query) -> web.Response:
    caller = request[CALLER]
    role = caller.role
    session = request.app[SERVICES].sign_ins.find(presented_key(request.headers) or "")
    return json_reply(
        WhoAmI(
            caller=caller.key_name,
            role=role.name,
            servers=sorted(role.servers),
            tools=ToolRules(allow=list(role.allowed_tools), deny=list(role.denied_tools)),
            sees_all_executions=role.sees_all_executions,
            approves_skills=role.approves_skills,
            chat_rooms=sorted(role.chat_rooms),
            shared_workspaces=list(role.shared_workspaces),
            session_expires_at=iso(session.expires_at) if session is not None else None,
            features=[],
        )
    )


async def metrics(request: web.Request, query: Query) -> web.Response:
    """Tell of every role's tools, so only to whoever sees what every role does."""
    if not request[CALLER].role.sees_all_executions:
        raise NotForYourRole("Your role may not read the metrics, which name the tools of every role.")
    return web.Response(
        body=request.app[SERVICES].render_metrics(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def openapi(request: web.Request, query: Query) -> web.Response:
    return web.json_response(request.app[DOCUMENT])
