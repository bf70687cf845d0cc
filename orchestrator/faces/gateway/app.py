"""Answers a sandbox's requests: POST /call, /search, /info and /emit, each with the execution's grant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import structlog
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from orchestrator.catalog.disclosure import Detail
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import AccessBook, Caller, Role
from orchestrator.domain.errors import (
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    GrantInvalid,
    InvalidArguments,
    LimitExceeded,
    OrchestratorError,
    RoomDenied,
    RoomNotFound,
    ToolDenied,
    ToolNotFound,
    ToolUnavailable,
)
from orchestrator.domain.execution import GatewayLimits
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.upstream import CallResult
from orchestrator.service.call_recorder import Journal, Recorder
from orchestrator.service.grants import Grant, Grants
from orchestrator.service.ledger import LedgerEntry, Notify

log = structlog.get_logger()

B = TypeVar("B", bound=BaseModel)

LARGE_CHARACTERS = 256 * 1024
SMALL_BYTES = 64 * 1024
BUFFER_BYTES = 16 * 1024  # of a request that nobody reads; a program may open a hundred

STATUS_OF_CODE = {
    GrantInvalid.code: 401,
    ToolDenied.code: 403,
    ToolNotFound.code: 404,
    InvalidArguments.code: 422,
    LimitExceeded.code: 429,
    ToolUnavailable.code: 503,
    RoomDenied.code: 403,
    RoomNotFound.code: 404,
    ChatRefused.code: 502,
    ChatRateLimited.code: 429,
    ChatUnavailable.code: 503,
    ChatUnconfirmed.code: 504,
}
OUTCOME_OF_CODE = {
    GrantInvalid.code: CallOutcome.DENIED,
    ToolDenied.code: CallOutcome.DENIED,
    ToolNotFound.code: CallOutcome.INVALID,
    InvalidArguments.code: CallOutcome.INVALID,
    LimitExceeded.code: CallOutcome.LIMITED,
    ToolUnavailable.code: CallOutcome.UNAVAILABLE,
    RoomDenied.code: CallOutcome.DENIED,
    RoomNotFound.code: CallOutcome.INVALID,
    ChatRefused.code: CallOutcome.TOOL_ERROR,
    ChatRateLimited.code: CallOutcome.LIMITED,
    ChatUnavailable.code: CallOutcome.UNAVAILABLE,
    ChatUnconfirmed.code: CallOutcome.UNAVAILABLE,
}

Order = Mapping[str, Any]
Answer = Callable[["Gateway", Grant, Order, int], Awaitable[str]]


class Access(Protocol):
    @property
    def book(self) -> AccessBook: ...


class Upstreams(Protocol):
    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], timeout_seconds: float, role: Role
    ) -> CallResult: ...


class SearchOrder(BaseModel):
    query: str | list[str]
    server: str | None = None
    detail: Detail = Detail.DESCRIPTION
    limit: int = Field(10, ge=1, le=50)


class Gateway:
    def __init__(
        self,
        toolbox: Toolbox,
        observations: Observations,
        upstreams: Upstreams,
        access: Access,
        journal: Journal,
        limits: GatewayLimits,
    ) -> None:
        self._toolbox = toolbox
        self._observations = observations
        self._upstreams = upstreams
        self._access = access
        self._limits = limits
        self._recorder = Recorder(journal)
        self._grants = Grants(limits, self._recorder)
        self._server: web.Server | None = None

    def accept(self, slot_id: str) -> asyncio.Protocol:
        """A protocol for one connection that the slot relays."""
        if self._server is None:
            self._server = web.Server(
                self._respond, access_log=None, auto_decompress=False, keepalive_timeout=600, read_bufsize=BUFFER_BYTES
            )
        return self._server()

    def open(self, caller: Caller, execution_id: str, slot_id: str, notify: Notify) -> Grant:
        return self._grants.issue(caller, execution_id, slot_id, notify)

    def drop_grants_of_lost_keys(self) -> None:
        if lost := self._grants.revoke_unless(self._access.book.live_keys):
            log.warning("grants.revoked", executions=lost)

    async def shut_down(self) -> None:
        if self._server is not None:
            await self._server.shutdown(timeout=1)
        await self._recorder.finish()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        try:
            return await self._answer(request)
        except OrchestratorError as error:
            return _refusal(STATUS_OF_CODE.get(error.code, 500), error)
        except Exception:
            log.exception("gateway.crashed", path=request.path)
            return _refusal(500, OrchestratorError("The gateway failed."))

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        grant = self._granted(request)
        answer = ANSWERS.get((request.method, request.path))
        if answer is None:
            raise ToolNotFound("The gateway has POST /call, /search, /info and /emit.")
        body = await self._read(grant, request)
        grant.require_valid()  # it may have ended while the body came
        text = await grant.within(answer(self, grant, _parsed(body), len(body)))
        return web.Response(text=text, content_type="application/json")

    def _granted(self, request: web.BaseRequest) -> Grant:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        slot_id = request.transport.get_extra_info("slot_id") if request.transport else None
        if scheme.lower() != "bearer" or slot_id is None:
            raise GrantInvalid("The request carries no grant.")
        return self._grants.find(token.strip(), slot_id)

    async def _read(self, grant: Grant, request: web.BaseRequest) -> bytes:
        """A program may leave its requests unfinished: of large ones only a few are let in at a time."""
        length = request.content_length
        if length is not None and length <= SMALL_BYTES:
            return await self._read_whole(request)
        async with grant.large_bodies:
            return await self._read_whole(request)

    async def _read_whole(self, request: web.BaseRequest) -> bytes:
        body = bytearray()
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > self._limits.max_request_bytes:
                raise LimitExceeded(f"A request may have {self._limits.max_request_bytes} bytes.")
        return bytes(body)

    async def call(self, grant: Grant, order: Order, size: int) -> str:
        server, tool, arguments = _named(order, "server"), _named(order, "tool"), order.get("arguments", {})
        grant.require_calls_left()
        entry = grant.ledger.begin(server, tool, size)
        try:
            return await self._forward(grant, entry, server, tool, arguments, size)
        except OrchestratorError as error:
            outcome = OUTCOME_OF_CODE.get(error.code, CallOutcome.UNAVAILABLE)
            await entry.finish(outcome, detail=error.summary)
            raise

    async def _forward(
        self, grant: Grant, entry: LedgerEntry, server: str, tool: str, arguments: Any, size: int
    ) -> str:
        grant.require_calls_left()
        grant.count_bytes(size)
        role = self._role(grant)
        described = self._toolbox.callable_tool(role, server, tool)
        if not isinstance(arguments, Mapping):
            raise InvalidArguments("The arguments are not an object.")
        async with grant.turns:
            entry.sent()
            result = await self._upstreams.call(server, tool, arguments, self._limits.call_timeout_seconds, role)
            text = await _dumped(result)
        grant.count_bytes(len(text))
        self._observations.note(described, result)
        grant.pictures.note(result)
        failed = bool(result.get("isError"))
        await entry.finish(CallOutcome.TOOL_ERROR if failed else CallOutcome.DONE, result_bytes=len(text))
        return text

    async def search(self, grant: Grant, order: Order, size: int) -> str:
        wish = _validated(SearchOrder, order)
        queries = [wish.query] if isinstance(wish.query, str) else wish.query
        found = self._toolbox.search(self._role(grant), queries, wish.detail, server=wish.server, limit=wish.limit)
        return json.dumps(found)

    async def info(self, grant: Grant, order: Order, size: int) -> str:
        return json.dumps(self._toolbox.info(self._role(grant), _named(order, "server"), _named(order, "tool")))

    async def emit(self, grant: Grant, order: Order, size: int) -> str:
        grant.count_bytes(size)
        return json.dumps({"images": grant.pictures.emit(order)})

    def _role(self, grant: Grant) -> Role:
        """The role as it stands now: a change of roles.json holds at once."""
        role = self._access.book.roles.get(grant.caller.role.name)
        if role is None:
            raise GrantInvalid(f"The role {grant.caller.role.name} no longer exists.")
        return role


ANSWERS: dict[tuple[str, str], Answer] = {
    ("POST", "/call"): Gateway.call,
    ("POST", "/search"): Gateway.search,
    ("POST", "/info"): Gateway.info,
    ("POST", "/emit"): Gateway.emit,
}


def _parsed(body: bytes) -> Order:
    try:
        order = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments("The body is not JSON.") from error
    if not isinstance(order, dict):
        raise InvalidArguments("The body is not an object.")
    return order


def _validated(kind: type[B], order: Order) -> B:
    try:
        return kind.model_validate(order)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidArguments(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def _named(order: Order, field: str) -> str:
    value = order.get(field)
    if not isinstance(value, str) or not 1 <= len(value) <= 256 or not _is_text(value):
        raise InvalidArguments(f"{field}: it is a name.")
    return value


def _is_text(value: str) -> bool:
    """JSON can spell lone surrogates, which no name has."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _dumped(result: CallResult) -> str:
    # A large result is written off the event loop, so that it does not delay other executions' calls.
    contents = result.get("content")
    pieces = contents if isinstance(contents, list) else []
    size = sum(len(str(piece.get("text") or piece.get("data") or "")) for piece in pieces if isinstance(piece, dict))
    if size > LARGE_CHARACTERS or ("structuredContent" in result and size == 0):
        return await asyncio.to_thread(json.dumps, result)
    return json.dumps(result)


def _refusal(status: int, error: OrchestratorError) -> web.Response:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return web.json_response(body, status=status)
