"""The routes of the HTTP API."""

from __future__ import annotations

from aiohttp import web

from orchestrator.faces.http import execute, executions, operations, tools
from orchestrator.faces.http.context import API, Api, authentication
from orchestrator.faces.http.problems import problems

# One byte of code can take six in JSON (\\u00e9), and the rest of the body is small.
JSON_EXPANSION = 6
BODY_ALLOWANCE_BYTES = 64 * 1024


def build_app(api: Api) -> web.Application:
    max_body = api.limits.max_code_bytes * JSON_EXPANSION + BODY_ALLOWANCE_BYTES
    app = web.Application(middlewares=[problems, authentication], client_max_size=max_body)
    app[API] = api
    app.add_routes(
        [
            web.post("/execute", execute.execute),
            web.get("/executions", executions.list_executions),
            web.get("/executions/{id}", executions.get_execution),
            web.get("/executions/{id}/output", executions.get_output),
            web.delete("/executions/{id}", executions.cancel_execution),
            web.get("/tools", tools.list_tools),
            web.get("/tools/search", tools.search_tools),
            web.get("/tools/info/{server}/{tool}", tools.tool_info),
            web.get("/whoami", tools.whoami),
            web.get("/health", operations.health),
            web.get("/livez", operations.livez),
            web.get("/readyz", operations.readyz),
            web.get("/metrics", operations.metrics),
            web.get("/openapi.json", operations.openapi),
            web.get("/docs", operations.docs),
        ]
    )
    return app
