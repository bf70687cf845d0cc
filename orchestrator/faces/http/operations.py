"""For operators: health, readiness, metrics, and the description of the API itself."""

from __future__ import annotations

import json
import time
from importlib import resources

from aiohttp import web

from orchestrator.domain.upstream import UpstreamStatus
from orchestrator.faces.http.context import API
from orchestrator.faces.http.openapi import document
from orchestrator.faces.http.problems import problem_of
from orchestrator.faces.http.schemas import Health

# The page holds no address but its own, so it works offline and can send nothing elsewhere.
DOCS_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def health(request: web.Request) -> web.Response:
    api = request.app[API]
    by_server = api.catalog.tools_by_server()
    body = Health(
        status="healthy" if api.readiness.ready else "degraded",
        version=api.version,
        uptime=round(time.monotonic() - api.started_at, 3),
        servers=len(by_server),
        total_tools=sum(by_server.values()),
        tools_by_server=by_server,
        upstreams={status.server: _upstream(status) for status in api.catalog.statuses()},
    )
    return web.Response(text=body.model_dump_json(by_alias=True), content_type="application/json")


def _upstream(status: UpstreamStatus) -> str:
    return f"{status.state.value}: {status.problem}" if status.problem else status.state.value


async def livez(request: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


async def readyz(request: web.Request) -> web.Response:
    problem = request.app[API].readiness.problem
    if problem is None:
        return web.json_response({"status": "ready"})
    response = problem_of(problem, None)
    response.set_status(503)
    return response


async def metrics(request: web.Request) -> web.Response:
    return web.Response(
        body=request.app[API].render_metrics(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def openapi(request: web.Request) -> web.Response:
    return web.json_response(document(request.app[API].version))


async def docs(request: web.Request) -> web.Response:
    page = resources.files(__package__).joinpath("static/docs.html").read_text()
    description = json.dumps(document(request.app[API].version)).replace("</", "<\\/")
    return web.Response(
        text=page.replace("__OPENAPI__", description),
        content_type="text/html",
        headers={"Content-Security-Policy": DOCS_POLICY, "X-Content-Type-Options": "nosniff"},
    )
