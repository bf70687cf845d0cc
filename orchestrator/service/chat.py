"""The use case: speak and listen in the rooms that a role may use."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from orchestrator.domain.access import ANY_ROOM, CHAT_SERVER, Role
from orchestrator.domain.chat import (
    DEFAULT_MESSAGES,
    MAX_LISTED_MEMBERS,
    MAX_MESSAGES,
    MAX_TEXT_BYTES,
    Member,
    MessagePage,
    RoomMembers,
    Sent,
    printable,
    size_in_event,
)
from orchestrator.domain.errors import (
    ChatNotConfigured,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    InvalidArguments,
    OrchestratorError,
    RoomDenied,
    RoomNotFound,
    ToolDenied,
)

ROOM = re.compile(r"[!#][^\s\x00-\x1f\x7f]{1,254}")


class Homeserver(Protocol):
    """Where the rooms are. Raises ChatUnavailable, ChatRateLimited, ChatRefused or RoomNotFound."""

    async def room_id(self, room: str) -> str: ...

    async def join(self, room: str) -> None: ...

    async def send(self, room_id: str, text: str, transaction_id: str) -> str:
        """Post at most once per transaction id; raise ChatUnconfirmed when it cannot know whether it did."""

    async def newest(self, room_id: str, limit: int, since: str | None) -> MessagePage: ...

    async def older(self, room_id: str, limit: int, before: str) -> MessagePage: ...

    async def members(self, room_id: str) -> tuple[Member, ...]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A room that was entered: as the caller named it, and as the homeserver knows it."""

    name: str
    id: str
    homeserver: Homeserver


class Chat:
    def __init__(self, homeserver: Homeserver | None, default_room: str | None) -> None:
        self._homeserver = homeserver
        self._default_room = default_room
        self._joined: set[str] = set()
        self.problem: str | None = None

    @property
    def configured(self) -> bool:
        return self._homeserver is not None

    def require_configured(self) -> None:
        if self._homeserver is None:
            raise ChatNotConfigured(
                "Chat is not configured. An operator must set CODE_EXECUTOR_MATRIX_HOMESERVER and "
                "CODE_EXECUTOR_MATRIX_TOKEN and restart the daemon."
            )

    async def send(self, role: Role, room: str | None, text: str, transaction_id: str | None = None) -> Sent:
        transaction_id = transaction_id or secrets.token_hex(8)
        try:
            async with self._inside(role, "send", room) as place:
                safe = printable(text)
                if not safe.strip():
                    raise InvalidArguments("`text` must not be empty.")
                if (size := size_in_event(safe)) > MAX_TEXT_BYTES:
                    raise InvalidArguments(
                        f"`text` must take at most {MAX_TEXT_BYTES} bytes as JSON; it takes {size}. Split it."
                    )
                # The text takes part, so that an id that is used again for another text does not swallow that text.
                parts = "\0".join((role.name, place.id, transaction_id, safe)).encode("utf-8", "surrogatepass")
                posting_id = hashlib.sha256(parts).hexdigest()[:32]
                message_id = await place.homeserver.send(place.id, safe, posting_id)
        except ChatUnconfirmed as error:
            message = (
                f"The message may have been sent. {error.message} "
                f"Send the same text again with transactionId {transaction_id}; it is posted at most once."
            )
            raise ChatUnconfirmed(message, retry_after_seconds=error.retry_after_seconds) from error
        except OrchestratorError as error:
            message = f"The message was not sent. {error.message}"
            raise type(error)(message, retry_after_seconds=error.retry_after_seconds) from error
        return Sent(place.name, message_id, transaction_id)

    async def read(
        self,
        role: Role,
        room: str | None,
        limit: int = DEFAULT_MESSAGES,
        since: str | None = None,
        before: str | None = None,
    ) -> MessagePage:
        if since is not None and before is not None:
            raise InvalidArguments("Give `since` to read on or `before` to read back, not both.")
        if not 1 <= limit <= MAX_MESSAGES:
            raise InvalidArguments(f"`limit` must be a whole number from 1 to {MAX_MESSAGES}.")
        async with self._inside(role, "read", room) as place:
            if before is None:
                page = await place.homeserver.newest(place.id, limit, since)
            else:
                page = await place.homeserver.older(place.id, limit, before)
        return MessagePage(place.name, page.messages, page.before, page.since)

    async def who(self, role: Role, room: str | None) -> RoomMembers:
        async with self._inside(role, "who", room) as place:
            members = await place.homeserver.members(place.id)
        return RoomMembers(place.name, members[:MAX_LISTED_MEMBERS], len(members))

    @asynccontextmanager
    async def _inside(self, role: Role, tool: str, room: str | None) -> AsyncIterator[Place]:
        place: Place | None = None
        try:
            place = await self._enter(role, tool, room)
            yield place
        except (ChatUnavailable, ChatUnconfirmed) as error:
            self.problem = error.message.rstrip(".")
            raise
        except (ChatRefused, RoomNotFound):
            if place is not None:
                self._joined.discard(place.id)  # the account may have been removed, and be let in again
            raise
        self.problem = None

    async def _enter(self, role: Role, tool: str, room: str | None) -> Place:
        self.require_configured()
        assert self._homeserver is not None  # noqa: S101  (narrows the type)
        name = room or self._default_room
        if name is None:
            raise InvalidArguments(
                "`room` must name a room, because no default room is set (CODE_EXECUTOR_MATRIX_DEFAULT_ROOM)."
            )
        if not ROOM.fullmatch(name):
            raise InvalidArguments("`room` must be an id like !abc:example.org or an alias like #general:example.org.")
        decision = role.decide(CHAT_SERVER, tool)
        if not role.chat_rooms:
            raise RoomDenied(f"Role {role.name} may not use room {name}: {decision.rule}.")
        if not decision.allowed:
            raise ToolDenied(f"Role {role.name} may not call {CHAT_SERVER}/{tool}: {decision.rule}.")
        rule = await self._rule_for(self._homeserver, role, name)
        room_id = await self._homeserver.room_id(name)
        # Joins only rooms that an operator named: a caller must not make the account enter rooms of its choice.
        if (rule != ANY_ROOM or name == self._default_room) and room_id not in self._joined:
            await self._homeserver.join(name)
            self._joined.add(room_id)
        return Place(name, room_id, self._homeserver)

    async def _rule_for(self, homeserver: Homeserver, role: Role, name: str) -> str:
        """Return the entry of chatRooms that allows the room: itself, its other name, or all rooms."""
        if name in role.chat_rooms:
            return name
        if ANY_ROOM in role.chat_rooms:
            return ANY_ROOM
        for allowed in sorted(role.chat_rooms):
            if await _is_same_room(homeserver, allowed, name):
                return allowed
        listed = ", ".join(sorted(role.chat_rooms))
        raise RoomDenied(f"Role {role.name} may not use room {name}: chatRooms of role {role.name} has only {listed}.")


async def _is_same_room(homeserver: Homeserver, allowed: str, name: str) -> bool:
    if allowed[0] == name[0] == "!":
        return False  # two different ids
    try:
        return await homeserver.room_id(allowed) == await homeserver.room_id(name)
    except RoomNotFound:
        return False
