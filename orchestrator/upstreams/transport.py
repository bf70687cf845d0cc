"""What every transport does, and what the ones with a shared answer stream have in common."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from orchestrator.upstreams.faults import NotJson, ResultTooLarge, TransportFailed
from orchestrator.upstreams.framing import ENDS_BYTES, Oversized
from orchestrator.upstreams.jsonrpc import (
    INITIALIZE,
    LIST_CHANGED,
    Message,
    Params,
    answer_to,
    cancellation,
    decode,
    encode,
    id_in,
    is_reply,
    is_request,
    notification,
    request,
    result_of,
)

Send = Callable[[bytes], Coroutine[Any, Any, None]]

_CHORE_SECONDS = 2.0
_MOST_ANSWERS = 16


@dataclass(frozen=True, slots=True)
class Alerts:
    """How a transport speaks up unasked."""

    relist: Callable[[], None]
    lost: Callable[[TransportFailed], None]


class Transport(Protocol):
    async def open(self) -> None: ...

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        """Return the result; raise RpcError, ResultTooLarge or TransportFailed."""

    async def notify(self, method: str, params: Params) -> None: ...

    def speak(self, protocol_version: str | None) -> None:
        """Take note of the version that both sides agreed on, if they had to."""

    def listen(self, *, announced: bool) -> None:
        """Begin to hear of changes of the tools, which the server may have announced to tell of."""

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
        """Do what a server asks for, but leave undone what is too much: it may ask without end."""
        if len(self._tasks) < _MOST_ANSWERS:
            self.start(work())

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        with suppress(TransportFailed, TimeoutError):
            async with asyncio.timeout(_CHORE_SECONDS):
                await work

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        await stop(*self._tasks)


class Conversation:
    """Requests in flight on a transport whose replies come on one stream, in any order."""

    def __init__(self, send: Send, alerts: Alerts, max_result_bytes: int) -> None:
        self._send = send
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._chores = Chores()
        self._ended: TransportFailed | None = None

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        """Send a request and wait for its result; when cancelled, let the server know."""
        if self._ended is not None:
            raise self._ended
        request_id = next(self._ids)
        reply = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(encode(request(request_id, method, params)))
            return result_of(await reply)
        except asyncio.CancelledError:
            if method != INITIALIZE:
                self._chores.start(self._send(encode(cancellation(request_id))))
            raise
        finally:
            del self._waiting[request_id]
            if reply.done() and not reply.cancelled():
                reply.exception()  # seen: the request may have ended before it was awaited

    async def notify(self, method: str, params: Params) -> None:
        await self._send(encode(notification(method, params)))

    async def receive(self, raw: bytes) -> None:
        """Take in what came on the stream; raise NotJson if it is neither JSON nor the reply to a request of ours."""
        try:
            messages = await decode(raw)
        except NotJson as failure:
            waiting = self._waiting.get(id_in(raw[:ENDS_BYTES], raw[-ENDS_BYTES:]) or 0)
            if waiting is None or waiting.done():
                raise
            waiting.set_exception(failure)
            return
        for message in messages:
            if is_reply(message):
                request_id = message.get("id")
                waiting = self._waiting.get(request_id) if isinstance(request_id, int) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif is_request(message):
                self._chores.start_unless_many(partial(self._send, encode(answer_to(message))))
            elif message.get("method") == LIST_CHANGED:
                self._alerts.relist()

    def refuse_oversized(self, message: Oversized) -> None:
        """Fail the request whose reply it was, as its ends tell; if they do not, fail all that wait."""
        request_id = id_in(message.head, message.tail)
        for waiting_id, waiting in self._waiting.items():
            if request_id in (waiting_id, None) and not waiting.done():
                waiting.set_exception(ResultTooLarge(self._max_result_bytes))

    def end(self, failure: TransportFailed) -> None:
        """Fail all that wait and whoever asks later, and say that the connection is lost."""
        if self._ended is None:
            self._fail_all(failure)
            self._alerts.lost(failure)

    async def close(self) -> None:
        if self._ended is None:
            self._fail_all(TransportFailed("we have disconnected from it"))
        await self._chores.close()

    def _fail_all(self, failure: TransportFailed) -> None:
        self._ended = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
