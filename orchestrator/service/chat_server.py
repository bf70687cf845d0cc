"""The built-in server `chat`: what a sandbox sees of the rooms, as tools like those of any upstream."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.domain.access import CHAT_SERVER, Role
from orchestrator.domain.errors import InvalidArguments, ToolNotFound
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamState, UpstreamStatus
from orchestrator.service.chat import Chat
from orchestrator.service.chat_bodies import (
    Arguments,
    MembersBody,
    MessagesBody,
    ReadArguments,
    SendArguments,
    SentBody,
    WhoArguments,
)
from orchestrator.service.complaints import complaints

Call = Callable[[Chat, Role, Any], Awaitable[BaseModel]]


async def _send(chat: Chat, role: Role, wish: SendArguments) -> SentBody:
    return SentBody.of(await chat.send(role, wish.room, wish.text, wish.transaction_id))


async def _read(chat: Chat, role: Role, wish: ReadArguments) -> MessagesBody:
    return MessagesBody.of(await chat.read(role, wish.room, wish.limit, wish.since, wish.before))


async def _who(chat: Chat, role: Role, wish: WhoArguments) -> MembersBody:
    return MembersBody.of(await chat.who(role, wish.room))


@dataclass(frozen=True, slots=True)
class ChatTool:
    name: str
    description: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    call: Call
    reads_only: bool = True

    def described(self) -> Tool:
        return Tool(
            server=CHAT_SERVER,
            name=self.name,
            description=self.description,
            input_schema=plain(self.arguments.model_json_schema(by_alias=True)),
            output_schema=plain(self.answer.model_json_schema(by_alias=True, mode="serialization")),
            annotations={"readOnlyHint": self.reads_only, "destructiveHint": False, "openWorldHint": True},
        )


CHAT_TOOLS = (
    ChatTool("send", "Post a message to a chat room.", SendArguments, SentBody, _send, reads_only=False),
    ChatTool(
        "read",
        "Read the newest messages of a chat room. Keep `since` to read on later, pass `before` to read back.",
        ReadArguments,
        MessagesBody,
        _read,
    ),
    ChatTool("who", "List the members of a chat room.", WhoArguments, MembersBody, _who),
)


class ChatServer:
    name = CHAT_SERVER

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._tools = {tool.name: tool for tool in CHAT_TOOLS} if chat.configured else {}
        self._described = tuple(tool.described() for tool in self._tools.values())
        self._started = time.time()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, of which there are none while chat is not configured."""
        return self._described

    @property
    def status(self) -> UpstreamStatus:
        problem = self._chat.problem
        state = UpstreamState.CONNECTED if problem is None else UpstreamState.DOWN
        return UpstreamStatus(self.name, state, len(self._described), problem, self._started)

    async def call(self, role: Role, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        known = self._tools.get(tool)
        if known is None:
            raise ToolNotFound(f"There is no tool {self.name}/{tool}.")
        try:
            wish = known.arguments.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(complaints(error, known.arguments, "arguments")) from error
        answer = await known.call(self._chat, role, wish)
        text = answer.model_dump_json(by_alias=True)
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": answer.model_dump(by_alias=True, mode="json"),
        }


def plain(schema: Any) -> Any:
    """Drop what costs a reader tokens and tells nothing: titles, and null as a way to leave an option out."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    told = {
        key: plain(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    choices = told.get("anyOf", [])
    if "default" in schema and schema["default"] is None and {"type": "null"} in choices:
        (choice,) = (choice for choice in choices if choice != {"type": "null"})
        told = {**choice, **{key: value for key, value in told.items() if key != "anyOf"}}
    return told
