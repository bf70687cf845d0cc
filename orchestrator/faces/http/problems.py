"""Every error of this face becomes problem+json here, and only here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import structlog
from aiohttp import web

from orchestrator.domain.errors import Category, OrchestratorError
from orchestrator.faces.bodies import Body
from orchestrator.faces.http.requests import EXECUTION_ID
from orchestrator.faces.status import status_of

log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PROBLEM_JSON = "application/problem+json"
# For what aiohttp itself refuses.
HINT_OF_STATUS = {
    HTTPStatus.NOT_FOUND: "GET /openapi.json lists every path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The Allow header names the methods of this path.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Send a smaller body.",
}


class Problem(Body):
    """Why a request was not carried out, as RFC 9457 describes problems."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    execution_id: str | None = None


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except OrchestratorError as error:
        return problem_of(error, request.get(EXECUTION_ID))
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        headers = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
        hint = HINT_OF_STATUS.get(status, "")
        return _problem(status, status.name.lower(), f"{status.phrase}.", hint, request.get(EXECUTION_ID), headers)
    except (ConnectionResetError, BrokenPipeError):
        raise
    except Exception:
        log.exception("request.crashed", method=request.method, path=request.path)
        return problem_of(OrchestratorError("The daemon failed."), request.get(EXECUTION_ID))


def problem_of(error: OrchestratorError, execution_id: str | None) -> web.Response:
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.category is Category.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="mcp-code-executor"'
    return _problem(status_of(error), error.code, error.message, error.hint, execution_id, headers)


def _problem(
    status: HTTPStatus, code: str, detail: str, hint: str, execution_id: str | None, headers: dict[str, str]
) -> web.Response:
    body = Problem(
        type=f"urn:mcp-code-executor:problem:{code}",
        title=status.phrase,
        status=status.value,
        detail=detail,
        code=code,
        hint=hint,
        execution_id=execution_id,
    )
    # In ASCII, because a message may repeat a lone surrogate that somebody sent.
    fields = body.model_dump(by_alias=True)
    return web.json_response(fields, status=status.value, headers=headers, content_type=PROBLEM_JSON)
