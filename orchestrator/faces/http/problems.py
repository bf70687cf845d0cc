"""Every error of this face becomes problem+json here, and only here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import structlog
from aiohttp import web

from orchestrator.domain.errors import OrchestratorError

log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

EXECUTION_ID = web.RequestKey("execution_id", str)

STATUS_OF_CODE = {
    "invalid_request": HTTPStatus.UNPROCESSABLE_ENTITY,
    "malformed_json": HTTPStatus.BAD_REQUEST,
    "unsupported_content_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "code_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "unauthenticated": HTTPStatus.UNAUTHORIZED,
    "foreign_origin": HTTPStatus.FORBIDDEN,
    "misdirected_request": HTTPStatus.MISDIRECTED_REQUEST,
    "not_found": HTTPStatus.NOT_FOUND,
    "already_finished": HTTPStatus.CONFLICT,
    "range_not_satisfiable": HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    "queue_full": HTTPStatus.TOO_MANY_REQUESTS,
    "idempotency_mismatch": HTTPStatus.UNPROCESSABLE_ENTITY,
    "shutting_down": HTTPStatus.SERVICE_UNAVAILABLE,
    "not_ready": HTTPStatus.SERVICE_UNAVAILABLE,
    "engine_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "runner_image_missing": HTTPStatus.SERVICE_UNAVAILABLE,
    "network_unsafe": HTTPStatus.SERVICE_UNAVAILABLE,
    "lockdown_mismatch": HTTPStatus.SERVICE_UNAVAILABLE,
    "sandbox_error": HTTPStatus.SERVICE_UNAVAILABLE,
    "journal_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "tool_denied": HTTPStatus.FORBIDDEN,
    "tool_not_found": HTTPStatus.NOT_FOUND,
    "tool_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "invalid_arguments": HTTPStatus.UNPROCESSABLE_ENTITY,
    "limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "grant_invalid": HTTPStatus.UNAUTHORIZED,
    "chat_not_configured": HTTPStatus.NOT_IMPLEMENTED,
    "room_denied": HTTPStatus.FORBIDDEN,
    "room_not_found": HTTPStatus.NOT_FOUND,
    "chat_refused": HTTPStatus.BAD_GATEWAY,
    "chat_rate_limited": HTTPStatus.TOO_MANY_REQUESTS,
    "chat_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "chat_unconfirmed": HTTPStatus.GATEWAY_TIMEOUT,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
}
HINT_OF_STATUS = {
    HTTPStatus.NOT_FOUND: "GET /openapi.json lists every path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The Allow header names the methods of this path.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Send a smaller body.",
}


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except OrchestratorError as error:
        return problem_of(error, request.get(EXECUTION_ID))
    except web.HTTPException as error:
        return _problem_of_http(error, request.get(EXECUTION_ID))
    except (ConnectionResetError, BrokenPipeError):
        raise
    except Exception:
        log.exception("request.crashed", method=request.method, path=request.path)
        return problem_of(OrchestratorError("The daemon failed."), request.get(EXECUTION_ID))


def problem_of(error: OrchestratorError, execution_id: str | None) -> web.Response:
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="mcp-code-executor"'
    return _problem(STATUS_OF_CODE[error.code], error.code, error.message, error.hint, execution_id, headers)


def _problem_of_http(error: web.HTTPException, execution_id: str | None) -> web.Response:
    status = HTTPStatus(error.status)
    headers = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
    hint = HINT_OF_STATUS.get(status, "")
    return _problem(status, status.name.lower(), f"{status.phrase}.", hint, execution_id, headers)


def _problem(
    status: HTTPStatus, code: str, detail: str, hint: str, execution_id: str | None, headers: dict[str, str]
) -> web.Response:
    body = {
        "type": f"urn:mcp-code-executor:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
        "hint": hint,
        "executionId": execution_id,
    }
    return web.json_response(body, status=status.value, headers=headers, content_type="application/problem+json")
