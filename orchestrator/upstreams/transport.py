"""What every transport does, and what the ones with a shared answer stream have in common."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
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
    request,
    result_of,
)

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

    async def tell(self, message: Message) -> None:
        """Send a message that has no reply."""

    def speak(self, protocol_version: str | None) -> None:
        """Take note of the version that both sides agreed on, if they had to."""

    def listen(self, *, announced: bool) -> None:
        """Begin to hear of changes of the tools, which the server may have announced to tell of."""

    async def close(self) -> None: ...


class Chores:
    """Small messages that nobody waits for: owned here, bounded in time, ended with the transport."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, unless_many: bool = False) -> None:
        """Do it in the background. `unless_many` is for what a server asks, as it may ask without end."""
        if unless_many and len(self._tasks) >= _MOST_ANSWERS:
            return

        async def work_briefly() -> None:
            with suppress(TransportFailed, TimeoutError):
                async with asyncio.timeout(_CHORE_SECONDS):
                    await work()

        task = asyncio.create_task(work_briefly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        await stop(*self._tasks)


class StreamTransport(ABC):
    """A transport whose replies come on one stream, in any order, together with what the server says unasked."""

    def __init__(self, alerts: Alerts, max_result_bytes: int) -> None:
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._chores = Chores()
        self._ended: TransportFailed | None = None

    @abstractmethod
    async def _send(self, message: bytes) -> None: ...

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
                self._chores.start(partial(self.tell, cancellation(request_id)))
            raise
        finally:
            del self._waiting[request_id]
            if reply.done() and not reply.cancelled():
                reply.exception()  # seen: the request may have ended before it was awaited

    async def tell(self, message: Message) -> None:
        await self._send(encode(message))

    def speak(self, protocol_version: str | None) -> None:  # noqa: B027  (a default)
        pass  # nothing but the messages themselves carries the version

    def listen(self, *, announced: bool) -> None:  # noqa: B027  (a default)
        pass  # notifications come on the one stream anyway

    async def _receive(self, raw: bytes | Oversized) -> None:
        """Take in what came on the stream; raise NotJson if it is neither JSON nor the reply to a request of ours."""
        if isinstance(raw, Oversized):
            # Its ends tell whose reply it was; if they do not, it may be anyone's.
            oversized_id = id_in(raw.head, raw.tail)
            for request_id, waiting in self._waiting.items():
                if oversized_id in (request_id, None) and not waiting.done():
                    waiting.set_exception(ResultTooLarge(self._max_result_bytes))
            return
        try:
            messages = await decode(raw)
        except NotJson as failure:
            broken = self._waiting.get(id_in(raw[:ENDS_BYTES], raw[-ENDS_BYTES:]) or 0)
            if broken is None or broken.done():
                raise
            broken.set_exception(failure)
            return
        for message in messages:
            if is_reply(message):
                reply_id = message.get("id")
                replied = self._waiting.get(reply_id) if isinstance(reply_id, int) else None
                if replied is not None and not replied.done():
                    replied.set_result(message)
            elif is_request(message):
                self._chores.start(partial(self.tell, answer_to(message)), unless_many=True)
            elif message.get("method") == LIST_CHANGED:
                self._alerts.relist()

    def _end(self, failure: TransportFailed, *, alert: bool = True) -> None:
        """Fail all that wait and whoever asks later; only the first cause counts."""
        if self._ended is not None:
            return
        self._ended = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)
        if alert:
            self._alerts.lost(failure)

    async def close(self) -> None:
        self._end(TransportFailed("we have disconnected from it"), alert=False)
        await self._chores.cancel()


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
