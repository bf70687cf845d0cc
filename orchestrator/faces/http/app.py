"""The HTTP server: who is it, which route, and every error as a problem."""

from __future__ import annotations

from aiohttp import web

from orchestrator.domain.errors import OrchestratorError, Unauthenticated
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.connection import connection_of
from orchestrator.faces.http.openapi import DOCUMENT, document
from orchestrator.faces.http.problems import Handler, problems
from orchestrator.faces.http.routes import ROUTES

PUBLIC_PATHS = frozenset(route.path for route in ROUTES if route.public)


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection, services = connection_of(request), request.app[SERVICES]
    try:
        connection.require_short_headers(request)
        services.hosts.check(request.headers)
    except (web.HTTPException, OrchestratorError):
        await connection.wait_as_a_stranger()
        raise
    is_public = request.path in PUBLIC_PATHS
    try:
        caller = services.authenticator.authenticate(request.headers)
        if not is_public:
            connection.serve(request, caller.key_name)
        if await connection.wait_as(caller.key_name):
            caller = services.authenticator.authenticate(request.headers)  # the key may be gone by now
        request[CALLER] = caller
    except Unauthenticated:
        await connection.wait_as_a_stranger()
        if not is_public:
            raise
    return await handler(request)


def build_app(services: Services, mcp: Handler | None = None) -> web.Application:
    app = web.Application(middlewares=[problems, authentication])
    app[SERVICES] = services
    app[DOCUMENT] = document(ROUTES, services.version)
    for route in ROUTES:
        app.router.add_route(route.method, route.pattern, route.handle, name=route.operation_id)
        if route.method == "GET":
            app.router.add_route("HEAD", route.pattern, route.handle)
    if mcp is not None:
        app.router.add_route("*", "/mcp", mcp)  # a protocol of its own, so the description of the API leaves it out
    return app
