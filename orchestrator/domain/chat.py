"""What is said in a room, as every face shows it: plain text that is safe to print."""

from __future__ import annotations

import json
from dataclasses import dataclass

# A Matrix event may take 65,536 bytes; the rest is for what the homeserver adds (ids, hashes, signatures).
MAX_TEXT_BYTES = 60_000
DEFAULT_MESSAGES = 20
MAX_MESSAGES = 100
MAX_LISTED_MEMBERS = 500

_KEPT = "\n\t"


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    sender: str
    text: str
    sent_at: float
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Sent:
    room: str
    message_id: str
    transaction_id: str


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Oldest first. `before` leads to what is older, None at the end; `since` leads to what comes later."""

    room: str
    messages: tuple[Message, ...]
    before: str | None
    since: str | None


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class RoomMembers:
    room: str
    members: tuple[Member, ...]
    total: int


def printable(text: str) -> str:
    """Without terminal escapes: a control character becomes its visible picture (ESC is ␛)."""
    one_newline = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(_visible(character) for character in one_newline)


def _visible(character: str) -> str:
    code = ord(character)
    if character in _KEPT or 0x20 <= code < 0x7F or (code > 0x9F and not 0xD800 <= code <= 0xDFFF):
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "\ufffd"


def size_in_event(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
