"""Who sends a request: whoever has a key, or, of the metrics alone, whoever has their token."""

from __future__ import annotations

import hmac

from aiohttp import web

from orchestrator.domain.access import Caller, Role, hash_key
from orchestrator.faces.auth import presented_key
from orchestrator.faces.context import SERVICES

METRICS_PATH = "/metrics"
METRICS_READER = Caller("the metrics token", Role("metrics", frozenset(), sees_all_executions=True))


def caller_of(request: web.Request) -> Caller:
    """Return the caller, or raise Unauthenticated."""
    if request.path == METRICS_PATH and _has_token(request):
        return METRICS_READER
    return request.app[SERVICES].authenticator.authenticate(request.headers)


def _has_token(request: web.Request) -> bool:
    expected, presented = request.app[SERVICES].metrics_token_sha256, presented_key(request.headers)
    return expected is not None and presented is not None and hmac.compare_digest(expected, hash_key(presented))
