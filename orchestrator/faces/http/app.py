"""The HTTP server: who is it, which route, and every error as a problem."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aiohttp import hdrs, web

from orchestrator.domain.errors import OrchestratorError, Unauthenticated
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.callers import caller_of
from orchestrator.faces.http.connection import connection_of
from orchestrator.faces.http.feed import WATCHERS, Watchers
from orchestrator.faces.http.openapi import DOCUMENT, document
from orchestrator.faces.http.problems import Handler, problems
from orchestrator.faces.http.routes import ROUTES

# What needs no key, by method and pattern.
PUBLIC: web.AppKey[frozenset[tuple[str, str]]] = web.AppKey("public", frozenset)


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection, services = connection_of(request), request.app[SERVICES]
    try:
        connection.require_short_headers(request)
        services.hosts.check(request.headers)
    except (web.HTTPException, OrchestratorError):
        await connection.wait_as_a_stranger()
        raise
    is_public = _is_public(request)
    try:
        caller = caller_of(request)
        if not is_public:
            connection.serve(request, caller.key_name)
        if await connection.wait_as(caller.key_name):
            caller = caller_of(request)  # the key may be gone by now
        request[CALLER] = caller
    except Unauthenticated:
        await connection.wait_as_a_stranger()
        if not is_public:
            raise
    return await handler(request)


def _is_public(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    return resource is not None and (method, resource.canonical) in request.app[PUBLIC]


def build_app(
    services: Services, mcp: Handler | None = None, pages: Mapping[str, Handler] = MappingProxyType({})
) -> web.Application:
    """Put the routes together; `pages` are given to anybody."""
    app = web.Application(middlewares=[problems, authentication])
    app[SERVICES] = services
    app[WATCHERS] = Watchers()
    app[DOCUMENT] = document(ROUTES, services.version)
    for route in ROUTES:
        app.router.add_route(route.method, route.pattern, route.handle, name=route.operation_id)
        if route.method == "GET":
            app.router.add_route("HEAD", route.pattern, route.handle)
    public = {(route.method, route.path) for route in ROUTES if route.public}
    for pattern, page in pages.items():
        resource = app.router.add_get(pattern, page).resource
        assert resource is not None  # noqa: S101  (what was added has one)
        public.add((hdrs.METH_GET, resource.canonical))
    app[PUBLIC] = frozenset(public)
    if mcp is not None:
        app.router.add_route("*", "/mcp", mcp)  # a protocol of its own, so the description of the API leaves it out
    return app
