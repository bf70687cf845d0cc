"""What every transport does, and what the ones with a shared answer stream have in common."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.upstreams.faults import ResultTooLarge, TransportFailed
from orchestrator.upstreams.framing import ENDS_BYTES, Oversized
from orchestrator.upstreams.jsonrpc import (
    NotJson,
    Params,
    decode,
    encode_answer,
    encode_notification,
    encode_request,
    id_in,
    is_reply,
    is_request,
    result_of,
)

Send = Callable[[bytes], Coroutine[Any, Any, None]]

_CHORE_SECONDS = 2.0
_MOST_ANSWERS = 16
LIST_CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"
INITIALIZE = "initialize"  # the one request that must not be cancelled


@dataclass(frozen=True, slots=True)
class Alerts:
    """How a transport speaks up unasked."""

    relist: Callable[[], None]
    lost: Callable[[TransportFailed], None]


class Transport(Protocol):
    async def open(self) -> None: ...

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        """Raises RpcError, ResultTooLarge or TransportFailed."""

    async def notify(self, method: str, params: Params) -> None: ...

    def speak(self, protocol_version: str | None, *, modern: bool) -> None:
        """Told once both sides agree, or that there is nothing to agree on."""

    def listen(self, *, announced: bool) -> None:
        """For changes of the tools, which the server may have announced to tell of."""

    async def close(self) -> None: ...


class Chores:
    """Small messages that nobody waits for: owned here, bounded in time, ended with the transport."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._bounded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start_unless_many(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """What a server asks for may be asked for without end; what is too much goes unanswered."""
        if len(self._tasks) < _MOST_ANSWERS:
            self.start(work())

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        with suppress(TransportFailed, TimeoutError):
            async with asyncio.timeout(_CHORE_SECONDS):
                await work

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.finish()


class Conversation:
    """Requests in flight on a transport whose replies come on one stream, in any order."""

    def __init__(self, send: Send, alerts: Alerts, max_result_bytes: int) -> None:
        self._send = send
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._chores = Chores()
        self._ended: TransportFailed | None = None

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        if self._ended is not None:
            raise self._ended
        request_id = next(self._ids)
        reply = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(encode_request(request_id, method, params))
            return result_of(await reply)
        except asyncio.CancelledError:
            if method != INITIALIZE:
                self._chores.start(self.notify(CANCELLED, {"requestId": request_id, "reason": "no longer needed"}))
            raise
        finally:
            del self._waiting[request_id]
            if reply.done() and not reply.cancelled():
                reply.exception()  # seen: the request may have ended before it was awaited

    async def notify(self, method: str, params: Params) -> None:
        await self._send(encode_notification(method, params))

    async def receive(self, raw: bytes) -> None:
        """Raises NotJson for what is nobody's."""
        try:
            messages = await decode(raw)
        except NotJson as failure:
            if not self._refuse_malformed(raw, failure):
                raise
            return
        for message in messages:
            if is_reply(message):
                self._settle(message)
            elif is_request(message):
                self._answer(message)
            elif message.get("method") == LIST_CHANGED:
                self._alerts.relist()

    def _answer(self, request: Mapping[str, Any]) -> None:
        self._chores.start_unless_many(lambda: self._send(encode_answer(request)))

    def _settle(self, reply: Mapping[str, Any]) -> None:
        request_id = reply.get("id")
        waiting = self._waiting.get(request_id) if isinstance(request_id, int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _refuse_malformed(self, raw: bytes, failure: NotJson) -> bool:
        waiting = self._waiting.get(id_in(raw[:ENDS_BYTES], raw[-ENDS_BYTES:]) or 0)
        if waiting is None or waiting.done():
            return False
        waiting.set_exception(failure)
        return True

    def refuse_oversized(self, message: Oversized) -> None:
        """Whose reply it was is told by its ends; if they do not tell, it is nobody's and everybody's."""
        request_id = id_in(message.head, message.tail)
        meant = self._waiting.values() if request_id is None else filter(None, [self._waiting.get(request_id)])
        for waiting in list(meant):
            if not waiting.done():
                waiting.set_exception(ResultTooLarge(self._max_result_bytes))

    def end(self, failure: TransportFailed) -> None:
        if self._ended is not None:
            return
        self._fail_all(failure)
        self._alerts.lost(failure)

    def _fail_all(self, failure: TransportFailed) -> None:
        self._ended = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)

    async def close(self) -> None:
        if self._ended is None:
            self._fail_all(TransportFailed("we have disconnected from it"))
        await self._chores.close()


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
