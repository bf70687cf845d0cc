"""Answers a sandbox's requests: POST /call, /search, /info and /emit, each with the execution's grant."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import structlog
from aiohttp import web

from orchestrator.catalog.disclosure import plain
from orchestrator.catalog.queries import require_few
from orchestrator.catalog.replies import Reply
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.errors import (
    GrantInvalid,
    InvalidArguments,
    InvalidRequest,
    LimitExceeded,
    OrchestratorError,
    ToolDenied,
    ToolNotFound,
)
from orchestrator.domain.json_text import Text
from orchestrator.domain.pace import Paces
from orchestrator.domain.skills import MAX_LEVELS, canonical_json, is_too_deep
from orchestrator.faces.gateway.orders import (
    InfoOrder,
    Names,
    Order,
    SearchOrder,
    UsedOrder,
    files_left,
    read_order,
    read_order_quickly,
    validated,
)
from orchestrator.faces.status import status_of
from orchestrator.service.grants import Grant
from orchestrator.service.pictures import Picture
from orchestrator.service.rooms import ResultRoom
from orchestrator.service.tool_calls import FREE_BYTES, ToolCalls

log = structlog.get_logger()

BUFFER_BYTES = 16 * 1024  # of a request that nobody reads; a program may open a hundred
PIECE_BYTES = 128 * 1024  # of an answer; as much as its connection takes before the program must have read some
# A program's client sends six short headers. More would be kept for as long as a request waits.
MAX_HEADERS = 24
MAX_HEADER_BYTES = 1024
# Of all programs of one caller. As many as one execution may ask, by default, are answered at once.
REQUESTS_BURST = 1200
REQUESTS_PAUSE_SECONDS = 1 / 400

# aiohttp tells of each request that it cannot parse, and a program can send such without end.
_SILENCE = logging.Logger("gateway", level=logging.CRITICAL + 1)

# Of a program that does not show its grant, as each does that uses its client library.
INTRUDERS_BURST = 20
INTRUDERS_PAUSE_SECONDS = 1 / 10

Answer = Callable[[Grant, Order, int, ResultRoom], Awaitable[Text]]


class Gateway:
    """The only thing that a sandbox can reach."""

    def __init__(
        self, tool_calls: ToolCalls, toolbox: Toolbox, max_request_bytes: int, stall_seconds: float = 60.0
    ) -> None:
        self._tool_calls = tool_calls
        self._toolbox = toolbox
        self._max_request_bytes = max_request_bytes
        self._stall_seconds = stall_seconds
        self._paces = Paces(REQUESTS_BURST, REQUESTS_PAUSE_SECONDS)
        self._intruders = Paces(INTRUDERS_BURST, INTRUDERS_PAUSE_SECONDS)
        self._server: web.Server | None = None
        self._answers: dict[tuple[str, str], tuple[Answer, Names]] = {
            ("POST", "/call"): (self.call, ("server", "tool", "arguments")),
            ("POST", "/search"): (self.search, ("query", "server", "detail", "limit")),
            ("POST", "/info"): (self.info, ("server", "tool")),
            ("POST", "/emit"): (self.emit, ("data",)),
            ("POST", "/used"): (self.used, ("skill", "failed")),
            ("POST", "/return"): (self.hand_back, ("value", "files")),
        }

    def accept(self, sandbox_id: str) -> asyncio.Protocol:
        """Return a protocol for one connection that a sandbox makes; its transport tells whose it is."""
        if self._server is None:
            self._server = web.Server(
                self._respond,
                access_log=None,
                logger=_SILENCE,
                auto_decompress=False,
                keepalive_timeout=600,
                read_bufsize=BUFFER_BYTES,
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
                max_headers=MAX_HEADERS,
            )
        protocol = self._server()
        # No client of ours sends a request before the last is answered. By default 32 would be parsed and kept.
        protocol._max_msg_queue_size, protocol._msg_queue_resume_size = 2, 1
        return protocol

    async def shut_down(self) -> None:
        if self._server is not None:
            await self._server.shutdown(timeout=1)
        await self._tool_calls.finish()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        grant: Grant | None = None
        try:
            grant = await self._granted(request)
            if seconds := self._paces.take(grant.caller.key_name):
                await asyncio.sleep(seconds)
            grant.open_request()
            try:
                with self._tool_calls.room(grant) as room:
                    text = await grant.within(self._answer(grant, request, room))
                    if len(text) <= FREE_BYTES:
                        return web.Response(body=text, content_type="application/json", charset="utf-8")
                    return await self._deliver(grant, request, text)
            finally:
                grant.close_request()
        except OrchestratorError as error:
            return _refusal(error)
        except Exception:
            # A program may find a way to make us fail, and would use it a thousand times.
            if grant is None or not grant.faults["crashed"]:
                log.exception("gateway.crashed", path=request.path[:100])
            if grant is not None:
                grant.faults["crashed"] += 1
            return _refusal(OrchestratorError("The gateway failed."))

    async def _granted(self, request: web.BaseRequest) -> Grant:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        sandbox_id = request.transport.get_extra_info("sandbox_id") if request.transport else None
        if sandbox_id is None:
            raise GrantInvalid("The connection is gone.")
        try:
            if scheme.lower() != "bearer":
                raise GrantInvalid("The request carries no grant.")
            return self._tool_calls.grants.find(token.strip(), sandbox_id)
        except GrantInvalid:
            await asyncio.sleep(self._intruders.take(sandbox_id))
            raise

    async def _answer(self, grant: Grant, request: web.BaseRequest, room: ResultRoom) -> Text:
        if (request.method, request.path) not in self._answers:
            raise ToolNotFound("The gateway has POST /call, /search, /info, /emit, /used and /return.")
        answer, names = self._answers[request.method, request.path]
        length = request.content_length
        if length is not None and length <= FREE_BYTES:
            body = await self._read_whole(grant, request)
            order = read_order_quickly(body, names)
            if order is None:
                order = await room.in_turn(partial(read_order, body, names))
            return await answer(grant, order, length, room)
        async with AsyncExitStack() as held:
            body = await self._read_large(grant, request, held)
            size = len(body)
            order = await room.in_turn(partial(read_order, body, names))
            del body  # what is needed of it, the order has
            return await answer(grant, order, size, room)

    async def _read_large(self, grant: Grant, request: web.BaseRequest, held: AsyncExitStack) -> bytearray:
        """Read a body. A program may leave its requests unfinished: of large ones only a few are let in at a time."""
        length = request.content_length
        if length is not None and length > self._max_request_bytes:
            raise self._too_large()
        async with grant.large_bodies:
            size = self._max_request_bytes if length is None else length
            reservation = self._tool_calls.rooms.for_request(grant.caller.key_name, size)
            await held.enter_async_context(reservation)
            try:
                async with asyncio.timeout(self._stall_seconds) as deadline:
                    body = await self._read_whole(grant, request, deadline)
            except TimeoutError:
                grant.faults["stalled"] += 1
                raise InvalidRequest(f"The body must not stall for {self._stall_seconds:g} s.") from None
            reservation.shrink(len(body))
            return body

    async def _read_whole(
        self, grant: Grant, request: web.BaseRequest, deadline: asyncio.Timeout | None = None
    ) -> bytearray:
        body = bytearray()
        try:
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > self._max_request_bytes:
                    raise self._too_large()
                if deadline is not None:
                    deadline.reschedule(asyncio.get_running_loop().time() + self._stall_seconds)
        except (ConnectionError, web.RequestPayloadError):
            grant.faults["broken_off"] += 1
            raise InvalidRequest("The body must be complete.") from None
        return body

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(f"A request must have at most {self._max_request_bytes} bytes.")

    async def _deliver(self, grant: Grant, request: web.BaseRequest, text: Text) -> web.StreamResponse:
        """Send a large answer bit by bit, as the program takes it; give up on one that does not."""
        headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(text))}
        response, view = web.StreamResponse(headers=headers), memoryview(text)
        try:
            async with asyncio.timeout(self._stall_seconds) as deadline:
                await response.prepare(request)
                for start in range(0, len(text), PIECE_BYTES):
                    await response.write(view[start : start + PIECE_BYTES])
                    deadline.reschedule(asyncio.get_running_loop().time() + self._stall_seconds)
                await response.write_eof()
        except TimeoutError:
            grant.faults["stalled"] += 1
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the program has gone, or does not want it any more
        return response

    async def call(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        server, tool, arguments = order.get("server"), order.get("tool"), order.get("arguments", {})
        return (await self._tool_calls.call(grant, server, tool, arguments, size, room)).text

    async def search(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        _require_unscoped(grant)
        grant.count_search()
        if isinstance(query := order.get("query"), list):
            require_few(query)  # before each of them is looked at
        wish = validated(SearchOrder, order)
        queries = [wish.query] if isinstance(wish.query, str) else wish.query
        async with self._tool_calls.rooms.questions.reserve(grant.caller.key_name, 1):
            role = self._tool_calls.role_of(grant)
            own = self._tool_calls.skills.own_tools(grant.caller, role)
            found = await self._toolbox.search(
                role, queries, wish.detail, server=wish.server, limit=wish.limit, own=own
            )
            return await _written(found, room)

    async def info(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        _require_unscoped(grant)
        grant.count_search()
        wish = validated(InfoOrder, order)
        async with self._tool_calls.rooms.questions.reserve(grant.caller.key_name, 1):
            role = self._tool_calls.role_of(grant)
            own = self._tool_calls.skills.own_tools(grant.caller, role)
            told = await self._toolbox.info(role, wish.server, wish.tool, own)
            return await _written(told, room)

    async def emit(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        grant.count_bytes(size)
        picture = await room.in_turn(partial(Picture.read, order.get("data")))
        return json.dumps({"images": grant.pictures.emit(picture)}).encode()

    async def used(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        """Count that a program used a skill in its own process, once for each program."""
        wish = validated(UsedOrder, order)
        self._tool_calls.note_use(grant, wish.skill, failed=wish.failed)
        return b"{}"

    async def hand_back(self, grant: Grant, order: Order, size: int, room: ResultRoom) -> Text:
        grant.count_bytes(size)
        if grant.scope is None:
            raise ToolDenied("Only a skill that was called hands back a result.")
        grant.scope.require_result(size)
        await room.in_turn(partial(_require_json, value := order.get("value")))
        left = await room.in_turn(partial(files_left, order.get("files", {})))
        grant.scope.hand_back(value, left)
        return b"{}"


async def _written(reply: Reply, room: ResultRoom) -> bytes:
    """Write what is told of tools, whose schemas may be large."""
    text = await asyncio.to_thread(lambda: json.dumps(reply, default=plain).encode())
    if len(text) > FREE_BYTES:
        await room.reserve(len(text))
    return text


def _require_json(value: object) -> None:
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        raise InvalidArguments(
            "A skill must return JSON: no NaN, no infinite number and no half of a character."
        ) from None
    if is_too_deep(value):
        raise InvalidArguments(f"A skill must return JSON that is nested at most {MAX_LEVELS} levels deep.")


def _require_unscoped(grant: Grant) -> None:
    """A skill is proven with the tools that it declares; what it found by searching would be something else."""
    if grant.scope is not None:
        raise ToolDenied("A skill cannot search for tools: it calls those that it declares.")


def _refusal(error: OrchestratorError) -> web.Response:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds is not None else {}
    return web.json_response(body, status=status_of(error).value, headers=headers)
