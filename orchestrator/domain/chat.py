"""What is said in a room, as every face shows it: plain text that is safe to print."""

from __future__ import annotations

import json
from dataclasses import dataclass

# A Matrix event may take 65,536 bytes; the rest is for what the homeserver adds (ids, hashes, signatures).
MAX_TEXT_BYTES = 60_000
DEFAULT_MESSAGES = 20
MAX_MESSAGES = 100
MAX_LISTED_MEMBERS = 500

_PICTURES: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),  # C1
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # lone surrogates, which no encoding takes
}


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
    """Turn each control character into its visible picture (ESC is ␛), so that no terminal obeys the text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_PICTURES)


def size_in_event(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
