"""Signing in to the console, and out of it. There is no cookie: all ports of a host would share it."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web
from pydantic import ConfigDict, Field, ValidationError

from orchestrator.domain.errors import BodyTooSlow, CodeTooLarge, InvalidRequest, MalformedJson, NotForSessions
from orchestrator.faces.auth import presented_key
from orchestrator.faces.bodies import Body, iso
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply
from orchestrator.service.sign_ins import CODE_SECONDS, TOKEN_PREFIX

LARGEST_BODY_BYTES = 4096
BODY_SECONDS = 10.0


class Code(Body):
    """A one-time code, for the fragment of a link to the console: `/#code=CODE`."""

    code: str
    expires_in_seconds: int


class SessionRequest(Body):
    """A one-time code; without one, the key in the header opens the session."""

    model_config = ConfigDict(extra="forbid")

    code: str | None = Field(None, max_length=200)


class Session(Body):
    """A session of the console; its token goes where a key would."""

    token: str
    caller: str
    role: str
    expires_at: str = Field(description="ISO 8601, UTC.")


async def make_code(request: web.Request, query: Query) -> web.Response:
    if _has_session(request):
        raise NotForSessions("A link to the console needs a key.")
    code = request.app[SERVICES].sign_ins.new_code(request[CALLER])
    return json_reply(Code(code=code, expires_in_seconds=int(CODE_SECONDS)), status=201)


async def open_session(request: web.Request, query: Query) -> web.Response:
    """Open a session for a code, or for the key of the request. A token makes no other token."""
    asked = await _read(request)
    sign_ins = request.app[SERVICES].sign_ins
    if asked.code is not None:
        opened = await sign_ins.redeem(asked.code)
    elif CALLER not in request:
        if presented_key(request.headers) is not None:
            request.app[SERVICES].authenticator.authenticate(request.headers)  # which says what is wrong with it
        raise InvalidRequest("Send `code`, or a key in the `Authorization` header.")
    elif _has_session(request):
        raise NotForSessions("A session needs a key or a one-time code.")
    else:
        opened = await sign_ins.open(request[CALLER])
    body = Session(
        token=opened.token,
        caller=opened.caller.key_name,
        role=opened.caller.role.name,
        expires_at=iso(opened.expires_at),
    )
    response = json_reply(body, status=201)
    response.headers["Cache-Control"] = "no-store"
    return response


async def close_session(request: web.Request, query: Query) -> web.Response:
    """Sign out; with a key, which has no session, nothing happens."""
    await request.app[SERVICES].sign_ins.close(presented_key(request.headers) or "")
    return web.Response(status=204)


def _has_session(request: web.Request) -> bool:
    return (presented_key(request.headers) or "").startswith(TOKEN_PREFIX)


async def _read(request: web.Request) -> SessionRequest:
    """Read a short body from anybody; a stranger has no share of what is kept for callers' bodies."""
    if not request.body_exists:
        return SessionRequest()
    if request.content_length is None or request.content_length > LARGEST_BODY_BYTES:
        raise CodeTooLarge(f"The body must have a Content-Length of at most {LARGEST_BODY_BYTES} bytes.")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {BODY_SECONDS:g} s.") from None
    try:
        return SessionRequest.model_validate(json.loads(body or b"{}"))
    except ValidationError as error:
        raise InvalidRequest("The body may have `code`, a text of at most 200 characters, and nothing else.") from error
    except (ValueError, RecursionError) as error:
        raise MalformedJson("The body must be JSON.") from error
