"""What is asked of chat and what it answers, as JSON: the same over HTTP and from inside a sandbox."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.chat import DEFAULT_MESSAGES, MAX_MESSAGES, Message, MessagePage, RoomMembers, Sent

Room = Annotated[
    str | None,
    Field(
        max_length=255,
        description="Id (!abc:example.org) or alias (#general:example.org) of the room; the default room if absent.",
    ),
]
Token = Annotated[str | None, Field(min_length=1, max_length=2048)]


class Arguments(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)


class SendArguments(Arguments):
    text: str = Field(description="Plain text, at most 60,000 bytes.")
    room: Room = None
    transaction_id: Token = Field(
        None,
        description="Your own id for this message: the same text with the same id is posted only once.",
    )


class ReadArguments(Arguments):
    room: Room = None
    limit: int = Field(DEFAULT_MESSAGES, ge=1, le=MAX_MESSAGES, description="The most messages to return.")
    since: Token = Field(None, description="`since` of an earlier answer: only what was said after it.")
    before: Token = Field(None, description="`before` of an earlier answer: what was said before it.")


class WhoArguments(Arguments):
    room: Room = None


class Answer(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class SentBody(Answer):
    room: str
    message_id: str
    transaction_id: str

    @classmethod
    def of(cls, sent: Sent) -> SentBody:
        return cls(room=sent.room, message_id=sent.message_id, transaction_id=sent.transaction_id)


class MessageBody(Answer):
    id: str
    sender: str
    text: str
    sent_at: str = Field(description="ISO 8601, UTC.")
    kind: str = Field(description="text, notice, emote, image, file, …")

    @classmethod
    def of(cls, message: Message) -> MessageBody:
        sent_at = datetime.fromtimestamp(message.sent_at, UTC).isoformat(timespec="milliseconds")
        return cls(id=message.id, sender=message.sender, text=message.text, sent_at=sent_at, kind=message.kind)


class MessagesBody(Answer):
    room: str
    messages: list[MessageBody] = Field(description="Oldest first.")
    before: str | None = Field(description="Pass as `before` to read what is older; null when there is nothing.")
    since: str | None = Field(description="Pass as `since` to read what is said later; null after reading back.")

    @classmethod
    def of(cls, page: MessagePage) -> MessagesBody:
        messages = [MessageBody.of(message) for message in page.messages]
        return cls(room=page.room, messages=messages, before=page.before, since=page.since)


class MemberBody(Answer):
    id: str
    name: str


class MembersBody(Answer):
    room: str
    members: list[MemberBody]
    total: int = Field(description="How many there are; at most 500 are listed.")

    @classmethod
    def of(cls, found: RoomMembers) -> MembersBody:
        members = [MemberBody(id=member.id, name=member.name) for member in found.members]
        return cls(room=found.room, members=members, total=found.total)
