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

from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.json_text import Text
from orchestrator.upstreams.faults import NoRoom, NotJson, ResultTooLarge, TransportFailed
from orchestrator.upstreams.framing import ENDS_BYTES, Line, Oversized
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
    names_a_method,
    request,
    result_of,
)
from orchestrator.upstreams.large_messages import decode_reply, encode_call
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.room import FREE_BYTES, Room

_CHORE_SECONDS = 2.0
_MOST_ANSWERS = 16
_ANSWERS_WITHIN_SECONDS = 1.0
_PATIENCE_SECONDS = 2.0
_IMPATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Alerts:
    """How a transport speaks up unasked."""

    relist: Callable[[], None]
    lost: Callable[[TransportFailed], None]


class Transport(Protocol):
    @property
    def is_apart(self) -> bool:
        """Tell, once it is open, whether the server can keep what is done here apart from what others do there."""

    async def open(self) -> None: ...

    async def request(self, method: str, params: Params, room: Room | None = None) -> Mapping[str, Any]:
        """Return the result, of a tool call with a room for it; raise RpcError, ResultTooLarge or TransportFailed."""

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
        self._answers = 0
        self._answers_counted_since = float("-inf")

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, unless_many: bool = False) -> None:
        """Do it in the background. `unless_many` is for what a server asks, as it may ask without end."""
        if unless_many:
            now = asyncio.get_running_loop().time()
            if now - self._answers_counted_since > _ANSWERS_WITHIN_SECONDS:
                self._answers, self._answers_counted_since = 0, now
            if self._answers >= _MOST_ANSWERS or len(self._tasks) >= _MOST_ANSWERS:
                return
            self._answers += 1

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


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """A request that waits for its reply. A large one is handed over as it is, for whoever asked to read it."""

    room: Room | None
    reply: asyncio.Future[Message | Text]

    def fail(self, error: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)

    def answer(self, reply: Message | Text) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)


class StreamTransport(ABC):
    """A transport whose replies come on one stream, in any order, together with what the server says unasked."""

    def __init__(self, alerts: Alerts, max_result_bytes: int) -> None:
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Pending] = {}
        self._impatient_until: dict[str, float] = {}  # with whose results
        self._chores = Chores()
        self._pace = ReadingPace()
        self._ended: TransportFailed | None = None

    @property
    def is_apart(self) -> bool:
        return True  # a stream, or a process, of its own

    @abstractmethod
    async def _send(self, message: bytes) -> None: ...

    async def request(self, method: str, params: Params, room: Room | None = None) -> Mapping[str, Any]:
        """Send a request and wait for its result; when cancelled, let the server know."""
        if self._ended is not None:
            raise self._ended
        request_id = next(self._ids)
        reply = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = _Pending(room, reply)
        try:
            await self._send(encode_call(request(request_id, method, params)))
            replied = await reply
            if isinstance(replied, bytes | bytearray):
                (replied,) = await decode_reply(replied, room)
                if replied.get("id") != request_id:
                    raise NotJson
            return result_of(replied)
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

    async def _receive(self, raw: Line | Oversized) -> None:
        """Take in what came on the stream; raise NotJson if it is neither JSON nor the reply to a request of ours."""
        if isinstance(raw, Oversized):
            if names_a_method(raw.head):
                return  # no reply
            # Its ends tell whose reply it was. If they do not, it may be that of any tool call; a listing of ours,
            # whose failure would take the server from everybody, has its own time limit.
            oversized_id = id_in(raw.head, raw.tail)
            for request_id, waiting in self._waiting.items():
                if oversized_id == request_id or (oversized_id is None and waiting.room is not None):
                    waiting.fail(ResultTooLarge(self._max_result_bytes))
            return
        if len(raw) > FREE_BYTES and (meant := id_at_the_ends(raw)) is not None:
            pending = self._waiting.get(meant)
            if pending is None:
                return  # who asked has gone, and what nobody wants is not worth decoding
            if pending.room is not None:
                await self._hand_over(raw, pending, pending.room)
                return
        useful = False
        try:
            messages = await decode(raw)
        except NotJson as failure:
            broken = self._waiting.get(id_at_the_ends(raw) or 0)
            if broken is None or broken.reply.done():
                await self._pace.after_useless(len(raw))
                raise
            broken.fail(failure)
            return
        for message in messages:
            if is_reply(message):
                reply_id = message.get("id")
                replied = self._waiting.get(reply_id) if isinstance(reply_id, int) else None
                if replied is not None:
                    replied.answer(message)
                    useful = True
            elif is_request(message):
                self._chores.start(partial(self.tell, answer_to(message)), unless_many=True)
            elif message.get("method") == LIST_CHANGED:
                self._alerts.relist()
        if not useful:
            await self._pace.after_useless(len(raw))

    async def _hand_over(self, raw: Line, pending: _Pending, room: Room) -> None:
        """Give a large reply to whoever waits for it, if there is room for it soon; else discard it.

        All replies come on this one stream: while one waits for its caller's room, everybody else's wait behind it. So
        it waits briefly, and after a wait in vain none of its caller's waits for a while: a caller that fills up its
        room and leaves it so does not hold up the others.
        """
        now = asyncio.get_running_loop().time()
        self._impatient_until = {owner: until for owner, until in self._impatient_until.items() if until > now}
        try:
            async with asyncio.timeout(0 if room.owner in self._impatient_until else _PATIENCE_SECONDS):
                await room.reserve(len(raw))
        except TimeoutError:
            self._impatient_until[room.owner] = asyncio.get_running_loop().time() + _IMPATIENCE_SECONDS
            pending.fail(NoRoom())
        except OrchestratorError as error:
            pending.fail(error)
        else:
            pending.answer(raw)

    def _end(self, failure: TransportFailed, *, alert: bool = True) -> None:
        """Fail all that wait and whoever asks later; only the first cause counts."""
        if self._ended is not None:
            return
        self._ended = failure
        for waiting in self._waiting.values():
            waiting.fail(failure)
        if alert:
            self._alerts.lost(failure)

    async def close(self) -> None:
        self._end(TransportFailed("we have disconnected from it"), alert=False)
        await self._chores.cancel()


def id_at_the_ends(raw: Line) -> int | None:
    return id_in(bytes(raw[:ENDS_BYTES]), bytes(raw[-ENDS_BYTES:]))


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
