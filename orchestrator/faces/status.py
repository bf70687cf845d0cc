"""The HTTP status of each category of fault, for every face that speaks HTTP."""

from __future__ import annotations

from http import HTTPStatus

from orchestrator.domain.errors import Category, OrchestratorError

STATUS_OF_CATEGORY = {
    Category.MALFORMED: HTTPStatus.BAD_REQUEST,
    Category.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    Category.UNSUPPORTED: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    Category.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Category.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    Category.OUT_OF_RANGE: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    Category.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Category.DENIED: HTTPStatus.FORBIDDEN,
    Category.MISDIRECTED: HTTPStatus.MISDIRECTED_REQUEST,
    Category.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Category.CONFLICT: HTTPStatus.CONFLICT,
    Category.LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Category.NOT_CONFIGURED: HTTPStatus.NOT_IMPLEMENTED,
    Category.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Category.REFUSED_ELSEWHERE: HTTPStatus.BAD_GATEWAY,
    Category.UNCONFIRMED: HTTPStatus.GATEWAY_TIMEOUT,
    Category.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: OrchestratorError | type[OrchestratorError]) -> HTTPStatus:
    return STATUS_OF_CATEGORY[error.category]
