"""Streamable HTTP: every message is a POST; the reply is JSON or an event stream."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NoReturn

import aiohttp

from orchestrator.upstreams.endpoint import SESSION_HEADER, Endpoint
from orchestrator.upstreams.entries import HttpServer
from orchestrator.upstreams.faults import HttpRefused, ResultTooLarge, SessionLost, TransportFailed
from orchestrator.upstreams.http_client import content_type, messages_in, require_acceptance
from orchestrator.upstreams.jsonrpc import (
    INITIALIZE,
    LIST_CHANGED,
    Message,
    Params,
    answer_to,
    cancellation,
    decode,
    is_reply,
    is_request,
    request,
    result_of,
)
from orchestrator.upstreams.large_messages import decode_reply, encode_call
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.parsing import Text
from orchestrator.upstreams.room import Room
from orchestrator.upstreams.sse import EVENT_STREAM
from orchestrator.upstreams.transport import Alerts, Chores, stop

_REFUSAL_BYTES = 4096
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_END_OF_STREAM_SECONDS = 0.005


class StreamableHttpTransport:
    def __init__(self, entry: HttpServer, http: aiohttp.ClientSession, alerts: Alerts, max_result_bytes: int) -> None:
        self._endpoint = Endpoint(http, entry.url, entry.headers)
        self._alerts = alerts
        self._max_result_bytes = max_result_bytes
        self._ids = itertools.count(1)
        self._chores = Chores()
        self._pace = ReadingPace()
        self._listener: asyncio.Task[None] | None = None

    @property
    def is_apart(self) -> bool:
        return self._endpoint.session_id is not None

    async def open(self) -> None:
        pass  # there is no connection but that of each message, kept alive by the pool

    def speak(self, protocol_version: str | None) -> None:
        self._endpoint.version = protocol_version

    def listen(self, *, announced: bool) -> None:
        # Some servers tell of changes without having announced it, but without a session they cannot.
        wanted = announced or self._endpoint.session_id is not None
        if wanted and (self._listener is None or self._listener.done()):
            self._listener = asyncio.create_task(self._follow_notifications())

    async def close(self) -> None:
        if self._listener is not None:
            await stop(self._listener)
        if self._endpoint.session_id is not None:
            self._chores.start(self._endpoint.end_session)
        await self._chores.finish()

    async def request(self, method: str, params: Params, room: Room | None = None) -> Mapping[str, Any]:
        """Post a request and return its result; when cancelled, let the server know."""
        request_id = next(self._ids)
        try:
            message = request(request_id, method, params)
            async with self._endpoint.post(message, encode_call(message)) as response:
                if method == INITIALIZE:
                    self._endpoint.session_id = response.headers.get(SESSION_HEADER) if response.ok else None
                if not response.ok:
                    await self._raise_refusal(response, request_id)
                return result_of(await self._reply(response, request_id, room))
        except asyncio.CancelledError:
            # Without a session nobody could tell whose request is meant; there the closed connection says it.
            if self._endpoint.session_id is not None and method != INITIALIZE:
                self._chores.start(partial(self.tell, cancellation(request_id)))
            raise

    async def tell(self, message: Message) -> None:
        async with self._endpoint.post(message) as response:
            await require_acceptance(response)

    async def _raise_refusal(self, response: aiohttp.ClientResponse, request_id: int) -> NoReturn:
        """Tell a lost session from an error reply to our request and from a refusal that is only a status."""
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= _REFUSAL_BYTES:
                break
        text = bytes(body[:_REFUSAL_BYTES])
        in_session = SESSION_HEADER in response.request_info.headers
        if in_session and response.status == 404:
            raise SessionLost("it has lost our session")
        with suppress(TransportFailed):  # which only says that the body holds no such reply
            for message in await decode(text):
                if is_reply(message) and message.get("id") == request_id:
                    result_of(message)
        if in_session and response.status == 400 and b"session" in text.lower():
            raise SessionLost("it has lost our session")
        raise HttpRefused(response.status)

    async def _reply(self, response: aiohttp.ClientResponse, request_id: int, room: Room | None) -> Message:
        """Read up to the reply to a request, and heed what else the server says."""
        read = partial(self._read, request_id=request_id, room=room)
        async with aclosing(messages_in(response, self._max_result_bytes, room, read, self._pace)) as messages:
            async for message in messages:
                if not _answers(message, request_id):
                    self._heed(message)
                    continue
                # The end of the stream follows closely, and one that is left before its end costs its connection.
                with suppress(TimeoutError, TransportFailed, ResultTooLarge, aiohttp.ClientError):
                    async with asyncio.timeout(_END_OF_STREAM_SECONDS):
                        async for late in messages:
                            self._heed(late)
                return message
        raise TransportFailed("its answer ended without a result")

    async def _read(self, raw: Text, request_id: int | None = None, room: Room | None = None) -> list[Message]:
        """Decode what came, and keep the pace unless it is the reply that is waited for."""
        messages = await decode_reply(raw, room)
        if not any(_answers(message, request_id) for message in messages):
            await self._pace.after_useless(len(raw))
        return messages

    def _heed(self, message: Message) -> None:
        if is_request(message):
            self._chores.start(partial(self.tell, answer_to(message)), unless_many=True)
        elif message.get("method") == LIST_CHANGED:
            self._alerts.relist()

    async def _follow_notifications(self) -> None:
        """Listen as long as the server offers the stream. Its end may be the server's end, so list the tools again."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with suppress(TransportFailed, ResultTooLarge):
                async with self._endpoint.listen() as response:
                    if response.status != 200 or content_type(response) != EVENT_STREAM:
                        return
                    stream = messages_in(response, self._max_result_bytes, decode=self._read, pace=self._pace)
                    async with aclosing(stream) as messages:
                        async for message in messages:
                            self._heed(message)
            self._alerts.relist()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _answers(message: Message, request_id: int | None) -> bool:
    """Tell whether a message is the reply to a request; an error may come without an id."""
    return request_id is not None and is_reply(message) and message.get("id") in (request_id, None)
