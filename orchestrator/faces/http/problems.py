"""Every error of this face becomes problem+json here, and only here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

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
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "Send less than CODE_EXECUTOR_MAX_HEADER_BYTES.",
    HTTPStatus.REQUEST_TIMEOUT: "Send all headers within CODE_EXECUTOR_HEADER_SECONDS.",
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
        return problem_of(error, error.execution_id or request.get(EXECUTION_ID))
    except web.HTTPException as error:
        headers = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
        return _response(_problem_of_status(HTTPStatus(error.status), request.get(EXECUTION_ID)), headers)
    except (ConnectionResetError, BrokenPipeError):
        raise
    except Exception:
        log.exception("request.crashed", method=request.method, path=request.path)
        return problem_of(OrchestratorError("The daemon failed."), request.get(EXECUTION_ID))


def problem_of(
    error: OrchestratorError, execution_id: str | None, more: Mapping[str, Any] = MappingProxyType({})
) -> web.Response:
    problem = _problem(status_of(error), error.code, error.message, error.hint, execution_id)
    return _response(problem, _headers(error), more)


def bare_answer(refusal: OrchestratorError | HTTPStatus) -> bytes:
    """Return a whole response for a connection that is closed before it has a request to answer."""
    if isinstance(refusal, HTTPStatus):
        problem, headers = _problem_of_status(refusal, None), {}
    else:
        problem = _problem(status_of(refusal), refusal.code, refusal.message, refusal.hint, None)
        headers = _headers(refusal)
    body = json.dumps(problem.model_dump(by_alias=True)).encode()
    headers |= {"Content-Type": PROBLEM_JSON, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {problem.status} {problem.title}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _headers(error: OrchestratorError) -> dict[str, str]:
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.category is Category.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="mcp-code-executor"'
    return headers


def _problem_of_status(status: HTTPStatus, execution_id: str | None) -> Problem:
    return _problem(status, status.name.lower(), f"{status.phrase}.", HINT_OF_STATUS.get(status, ""), execution_id)


def _problem(status: HTTPStatus, code: str, detail: str, hint: str, execution_id: str | None) -> Problem:
    return Problem(
        type=f"urn:mcp-code-executor:problem:{code}",
        title=status.phrase,
        status=status.value,
        detail=detail,
        code=code,
        hint=hint,
        execution_id=execution_id,
    )


def _response(
    problem: Problem, headers: dict[str, str], more: Mapping[str, Any] = MappingProxyType({})
) -> web.Response:
    # In ASCII, because a message may repeat a lone surrogate that somebody sent.
    fields = {**problem.model_dump(by_alias=True), **more}
    return web.json_response(fields, status=problem.status, headers=headers, content_type=PROBLEM_JSON)
