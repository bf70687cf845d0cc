"""Rooms on a Matrix homeserver, through its client-server API (https://spec.matrix.org/latest/client-server-api/)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any
from urllib.parse import quote, unquote

import aiohttp
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential_jitter,
)
from yarl import URL

from orchestrator.domain.chat import Member, Message, MessagePage, printable
from orchestrator.domain.errors import (
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    InvalidArguments,
    OrchestratorError,
    RoomNotFound,
)

API = "/_matrix/client/v3"
MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_REQUESTS_PER_PAGE = 5
MAX_QUOTED_CHARACTERS = 200
MAX_NAME_CHARACTERS = 256
_LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999, the last that a date can have
MESSAGES_ONLY = {"types": ["m.room.message"]}
NOTHING: Mapping[str, Any] = {"types": []}

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Patience:
    connect_seconds: float = 5
    reply_seconds: float = 15
    attempts: int = 3
    first_wait_seconds: float = 0.2
    total_seconds: float = 8
    alias_seconds: float = 300


class Refusal(Exception):
    """The homeserver understood the request and says no."""

    def __init__(self, status: int, reply: Json) -> None:
        super().__init__(status)
        self.status = status
        self.code = str(reply.get("errcode", ""))
        words = printable(str(reply.get("error", "")))[:MAX_QUOTED_CHARACTERS].strip().rstrip(".")
        self.words = words or f"HTTP {status}"


class MatrixHomeserver:
    def __init__(self, url: str, token: str, patience: Patience | None = None) -> None:
        self._base = url.rstrip("/") + API
        self._token = token
        self._patience = patience or Patience()
        self._http: aiohttp.ClientSession | None = None
        self._ids: dict[str, tuple[str, float]] = {}

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def room_id(self, room: str) -> str:
        if room.startswith("!"):
            return room
        known, until = self._ids.get(room, ("", 0.0))
        if time.monotonic() < until:
            return known
        reply = await self._ask(room, "GET", f"/directory/room/{_quoted(room)}")
        found = str(reply.get("room_id", ""))
        self._ids[room] = found, time.monotonic() + self._patience.alias_seconds
        return found

    async def join(self, room: str) -> None:
        await self._ask(room, "POST", f"/join/{_quoted(room)}", body={})

    async def send(self, room_id: str, text: str, transaction_id: str) -> str:
        # Empty mentions: a body that holds "@room" or a name alerts nobody.
        content = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        path = f"/rooms/{_quoted(room_id)}/send/m.room.message/{_quoted(transaction_id)}"
        doubt: ChatUnconfirmed | None = None

        async def post() -> Json:
            nonlocal doubt
            try:
                return await self._exchange("PUT", path, {}, content)
            except ChatUnconfirmed as error:
                doubt = error
                raise

        try:
            reply: Json = await self._attempts()(post)
        except (OrchestratorError, Refusal) as failure:
            if doubt is not None:
                raise doubt from None  # what failed later does not undo what may have been done before
            raise _explained(failure, room_id) from None
        return str(reply.get("event_id", ""))

    async def newest(self, room_id: str, limit: int, since: str | None) -> MessagePage:
        query = {"filter": _sync_filter(room_id, limit), "timeout": "0", "set_presence": "offline"}
        reply = await self._ask(room_id, "GET", "/sync", query | ({"since": since} if since else {}))
        room = reply.get("rooms", {}).get("join", {}).get(room_id)
        if room is None:  # a room without news and a room that we are not in look the same in a sync
            joined = await self._ask(room_id, "GET", "/joined_rooms")
            if room_id not in joined.get("joined_rooms", ()):
                raise RoomNotFound(f"The chat account is not a member of room {room_id}.")
        timeline = (room or {}).get("timeline", {})
        found = _messages(reversed(timeline.get("events", ())))
        cursor = timeline.get("prev_batch") if timeline.get("limited") else None
        return await self._page(room_id, found, cursor, since, limit, since=reply.get("next_batch"))

    async def older(self, room_id: str, limit: int, before: str) -> MessagePage:
        cursor, _, until = before.partition("|")
        return await self._page(room_id, [], unquote(cursor), unquote(until) or None, limit, since=None)

    async def members(self, room_id: str) -> tuple[Member, ...]:
        reply = await self._ask(room_id, "GET", f"/rooms/{_quoted(room_id)}/joined_members")
        joined: Mapping[str, Json] = reply.get("joined", {})
        names = {user_id: printable(str(profile.get("display_name") or user_id)) for user_id, profile in joined.items()}
        return tuple(Member(user_id, names[user_id][:MAX_NAME_CHARACTERS]) for user_id in sorted(names))

    async def _page(
        self,
        room_id: str,
        newest_first: list[Message],
        cursor: str | None,
        until: str | None,
        limit: int,
        *,
        since: str | None,
    ) -> MessagePage:
        """Ask until the page is full: homeservers may return less than was asked for although there is more."""
        found = list(newest_first)
        query = {"dir": "b", "filter": _compact(MESSAGES_ONLY), **({"to": until} if until else {})}
        for _ in range(MAX_REQUESTS_PER_PAGE):
            if cursor is None or len(found) >= limit:
                break
            query |= {"from": cursor, "limit": str(limit - len(found))}
            reply = await self._ask(room_id, "GET", f"/rooms/{_quoted(room_id)}/messages", query)
            found += _messages(reply.get("chunk", ()))
            cursor = reply.get("end")
        # The lower bound travels along, so that paging back ends where the reader already was.
        before = f"{quote(cursor, safe='')}|{quote(until or '', safe='')}" if cursor is not None else None
        return MessagePage(room_id, tuple(reversed(found)), before, since)

    async def _ask(
        self, about: str, method: str, path: str, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        """Ask for what may be asked twice without harm; `about` is the room that it is about."""
        try:
            return await self._attempts()(self._exchange, method, path, query or {}, body)
        except ChatUnconfirmed as error:
            raise ChatUnavailable(error.message, retry_after_seconds=error.retry_after_seconds) from None
        except Refusal as refusal:
            raise _explained(refusal, about) from None

    def _attempts(self) -> AsyncRetrying:
        patience = self._patience
        return AsyncRetrying(
            retry=retry_if_exception_type((ChatUnavailable, ChatUnconfirmed, ChatRateLimited)),
            wait=self._wait_seconds,
            stop=stop_after_attempt(patience.attempts) | stop_before_delay(patience.total_seconds),
            reraise=True,
        )

    def _wait_seconds(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ChatRateLimited) and error.retry_after_seconds is not None:
            return error.retry_after_seconds
        first = self._patience.first_wait_seconds
        return wait_exponential_jitter(multiplier=first, max=2, jitter=first)(state)

    async def _exchange(self, method: str, path: str, query: Mapping[str, str], body: Json | None) -> Json:
        url = URL(self._base + path, encoded=True).with_query(query)
        try:
            # Our token goes to the configured homeserver and nowhere else: redirects are not followed.
            async with self._session().request(method, url, json=body, allow_redirects=False) as response:
                received = bytearray()
                async for piece in response.content.iter_any():
                    received += piece
                    if len(received) > MAX_REPLY_BYTES:
                        raise ChatRefused(f"The homeserver's answer is larger than {MAX_REPLY_BYTES} bytes.")
                return _accepted(response, bytes(received))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(error) from None

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            patience = self._patience
            self._http = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {self._token}"},
                timeout=aiohttp.ClientTimeout(total=patience.reply_seconds, sock_connect=patience.connect_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=[_once],
            )
        return self._http


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a PUT when the connection breaks: we must know that the first may have worked.

    It repeats only after exceptions of its own.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _lost(error) from None


def _lost(error: Exception) -> ChatUnavailable | ChatUnconfirmed:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return ChatUnavailable(f"The homeserver cannot be reached: {_cause(error)}.")
    return ChatUnconfirmed(f"The homeserver did not answer completely: {_cause(error)}.")


def _accepted(response: aiohttp.ClientResponse, body: bytes) -> Json:
    """Return the reply if it is one; raise Refusal for a no in Matrix's words, and else what happened."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        reply = None
    known: Json = reply if isinstance(reply, dict) else {}
    if response.status == 200 and isinstance(reply, dict):
        return known
    if response.status == 429 or known.get("errcode") == "M_LIMIT_EXCEEDED":
        header, milliseconds = response.headers.get("Retry-After", ""), known.get("retry_after_ms")
        seconds = 1
        with suppress(ValueError, OverflowError):  # Infinity, NaN, or more digits than a number may have
            if header.isdecimal():
                seconds = max(1, int(header))
            elif isinstance(milliseconds, int | float):
                seconds = max(1, ceil(milliseconds / 1000))
        raise ChatRateLimited(f"The homeserver limits us. Wait {seconds} s.", retry_after_seconds=seconds)
    if response.status >= 500:
        raise ChatUnconfirmed(f"The homeserver answers HTTP {response.status}.")
    if not known:
        raise ChatRefused(
            f"What answers at the homeserver's address does not speak Matrix (HTTP {response.status}). "
            "Check CODE_EXECUTOR_MATRIX_HOMESERVER."
        )
    raise Refusal(response.status, known)


def _explained(failure: OrchestratorError | Refusal, room: str) -> OrchestratorError:
    if isinstance(failure, OrchestratorError):
        return failure
    match failure.code:
        case "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_USER_DEACTIVATED":
            return ChatRefused("The homeserver rejects our token. Set a valid CODE_EXECUTOR_MATRIX_TOKEN.")
        case "M_NOT_FOUND":
            return RoomNotFound(f"The homeserver knows no room {room}.")
        case "M_TOO_LARGE":
            return InvalidArguments("`text` is larger than the homeserver allows. Split it.")
        case "M_UNKNOWN" | "M_INVALID_PARAM" if failure.status == 400:
            return InvalidArguments(f"The homeserver does not understand the request: {failure.words}.")
        case _:
            return ChatRefused(f"The homeserver refuses it for room {room}: {failure.words}.")


def _messages(events: Iterable[Json]) -> list[Message]:
    """Read what can be shown as text; another homeserver may have put anything into an event."""
    messages = []
    for event in events:
        content, sent_at = event.get("content", {}), event.get("origin_server_ts")
        body, kind = content.get("body"), content.get("msgtype")
        if not isinstance(body, str) or not isinstance(kind, str):
            continue  # redacted, for example
        message = Message(
            id=_line(str(event.get("event_id", ""))),
            sender=_line(str(event.get("sender", ""))),
            text=printable(body),
            sent_at=min(max(0, sent_at), _LAST_MILLISECOND) / 1000 if type(sent_at) is int else 0.0,
            kind=_line(kind.removeprefix("m.")),
        )
        messages.append(message)
    return messages


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _sync_filter(room_id: str, limit: int) -> str:
    # Synapse answers a sync that it has seen in the last two minutes from its cache, without what was said since;
    # a name that nobody has makes each one new (its option caches.sync_response_cache_duration).
    nobody = f"@{secrets.token_hex(8)}:invalid"
    timeline = {**MESSAGES_ONLY, "limit": limit, "not_senders": [nobody]}
    room = {
        "rooms": [room_id],
        "timeline": timeline,
        "state": {**NOTHING, "lazy_load_members": True},
        "ephemeral": NOTHING,
        "account_data": NOTHING,
    }
    return _compact({"room": room, "presence": NOTHING, "account_data": NOTHING})


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _cause(error: Exception) -> str:
    """Say what failed in our own words: those of the client quote addresses."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its host name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its TLS certificate or handshake is not acceptable"
        case aiohttp.ConnectionTimeoutError():
            return "it does not accept connections in time"
        case aiohttp.ClientConnectorError():
            return "no connection can be made"
        case TimeoutError():
            return "it took too long"
        case _:
            return "the connection broke"
