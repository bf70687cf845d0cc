"""Answers a sandbox's requests: POST /call, /search, /info and /emit, each with the execution's grant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import structlog
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from orchestrator.catalog.disclosure import Detail, plain
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.errors import GrantInvalid, InvalidArguments, LimitExceeded, OrchestratorError, ToolNotFound
from orchestrator.faces.status import status_of
from orchestrator.service.complaints import complaints
from orchestrator.service.grants import Grant
from orchestrator.service.tool_calls import ToolCalls

log = structlog.get_logger()

B = TypeVar("B", bound=BaseModel)

SMALL_BYTES = 64 * 1024
BUFFER_BYTES = 16 * 1024  # of a request that nobody reads; a program may open a hundred

Order = Mapping[str, Any]


class SearchOrder(BaseModel):
    query: str | list[str]
    server: str | None = None
    detail: Detail = Detail.DESCRIPTION
    limit: int = Field(10, ge=1, le=50)


class InfoOrder(BaseModel):
    server: str = Field(min_length=1, max_length=256)
    tool: str = Field(min_length=1, max_length=256)


class Gateway:
    """The only thing that a sandbox can reach."""

    def __init__(self, tool_calls: ToolCalls, toolbox: Toolbox, max_request_bytes: int) -> None:
        self._tool_calls = tool_calls
        self._toolbox = toolbox
        self._max_request_bytes = max_request_bytes
        self._server: web.Server | None = None
        self._answers: dict[tuple[str, str], Callable[[Grant, Order, int], Awaitable[str]]] = {
            ("POST", "/call"): self.call,
            ("POST", "/search"): self.search,
            ("POST", "/info"): self.info,
            ("POST", "/emit"): self.emit,
        }

    def accept(self, sandbox_id: str) -> asyncio.Protocol:
        """Return a protocol for one connection that a sandbox makes; its transport tells whose it is."""
        if self._server is None:
            self._server = web.Server(
                self._respond, access_log=None, auto_decompress=False, keepalive_timeout=600, read_bufsize=BUFFER_BYTES
            )
        return self._server()

    async def shut_down(self) -> None:
        if self._server is not None:
            await self._server.shutdown(timeout=1)
        await self._tool_calls.finish()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        try:
            grant = self._granted(request)
            answer = self._answers.get((request.method, request.path))
            if answer is None:
                raise ToolNotFound("The gateway has POST /call, /search, /info and /emit.")
            body = await self._read(grant, request)
            grant.require_valid()  # it may have ended while the body came
            text = await grant.within(answer(grant, _parsed(body), len(body)))
            return web.Response(text=text, content_type="application/json")
        except OrchestratorError as error:
            return _refusal(error)
        except Exception:
            log.exception("gateway.crashed", path=request.path)
            return _refusal(OrchestratorError("The gateway failed."))

    def _granted(self, request: web.BaseRequest) -> Grant:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        sandbox_id = request.transport.get_extra_info("sandbox_id") if request.transport else None
        if scheme.lower() != "bearer" or sandbox_id is None:
            raise GrantInvalid("The request carries no grant.")
        return self._tool_calls.grants.find(token.strip(), sandbox_id)

    async def _read(self, grant: Grant, request: web.BaseRequest) -> bytes:
        """Read a body. A program may leave its requests unfinished: of large ones only a few are let in at a time."""
        length = request.content_length
        if length is not None and length <= SMALL_BYTES:
            return await self._read_whole(request)
        async with grant.large_bodies:
            return await self._read_whole(request)

    async def _read_whole(self, request: web.BaseRequest) -> bytes:
        body = bytearray()
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > self._max_request_bytes:
                raise LimitExceeded(f"A request must have at most {self._max_request_bytes} bytes.")
        return bytes(body)

    async def call(self, grant: Grant, order: Order, size: int) -> str:
        server, tool, arguments = order.get("server"), order.get("tool"), order.get("arguments", {})
        return (await self._tool_calls.call(grant, server, tool, arguments, size)).text

    async def search(self, grant: Grant, order: Order, size: int) -> str:
        wish = _validated(SearchOrder, order)
        queries = [wish.query] if isinstance(wish.query, str) else wish.query
        role = self._tool_calls.role_of(grant)
        found = self._toolbox.search(role, queries, wish.detail, server=wish.server, limit=wish.limit)
        return json.dumps(found, default=plain)

    async def info(self, grant: Grant, order: Order, size: int) -> str:
        wish = _validated(InfoOrder, order)
        told = self._toolbox.info(self._tool_calls.role_of(grant), wish.server, wish.tool)
        return json.dumps(told, default=plain)

    async def emit(self, grant: Grant, order: Order, size: int) -> str:
        grant.count_bytes(size)
        return json.dumps({"images": grant.pictures.emit(order)})


def _parsed(body: bytes) -> Order:
    try:
        order = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments("The body must be JSON.") from error
    if not isinstance(order, dict):
        raise InvalidArguments("The body must be an object.")
    return order


def _validated(kind: type[B], order: Order) -> B:
    try:
        return kind.model_validate(order)
    except ValidationError as error:
        raise InvalidArguments(complaints(error, kind, "body")) from error


def _refusal(error: OrchestratorError) -> web.Response:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds is not None else {}
    return web.json_response(body, status=status_of(error).value, headers=headers)
