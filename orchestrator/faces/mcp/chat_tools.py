"""chat_send, chat_read and chat_who."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from pydantic import BaseModel

from orchestrator.domain.access import CHAT_SERVER
from orchestrator.faces.mcp.tool import Answer, Call, Tool
from orchestrator.service.chat import Chat
from orchestrator.service.chat_bodies import (
    MembersBody,
    MessagesBody,
    ReadArguments,
    SendArguments,
    SentBody,
    WhoArguments,
)
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.executions import new_execution_id

CHAT_SEND = """\
Posts a plain text message to a chat room that people and other agents read. The reply has a transactionId: if the \
call fails after that, repeat it with the same one, and the message is posted only once.

Example: {"text": "The import is done: 1200 rows.", "room": "#team:example.org"}"""

CHAT_READ = """\
Reads the newest messages of a chat room, oldest first. Pass `since` of a reply to get only what came later, `before` \
to get what is older.

Example: {"room": "#team:example.org", "limit": 10}"""

CHAT_WHO = """\
Lists the members of a chat room; without `room`, of the default room.

Example: {"room": "#team:example.org"}"""

READS_CHAT = types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
POSTS = types.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)


class ChatTools:
    """Each tool calls its namesake on the built-in chat server, on the path that every tool call takes."""

    def __init__(self, chat: Chat, direct_calls: DirectCalls) -> None:
        self._chat = chat
        self._direct_calls = direct_calls

    def all(self) -> tuple[Tool[SendArguments], Tool[ReadArguments], Tool[WhoArguments]]:
        return (
            Tool(
                "chat_send",
                "Send to chat",
                CHAT_SEND,
                SendArguments,
                SentBody,
                POSTS,
                self.send,
                is_for=lambda role: role.may_call(CHAT_SERVER, "send"),
                is_of_use=self._is_configured,
            ),
            Tool(
                "chat_read",
                "Read chat",
                CHAT_READ,
                ReadArguments,
                MessagesBody,
                READS_CHAT,
                self.read,
                is_for=lambda role: role.may_call(CHAT_SERVER, "read"),
                is_of_use=self._is_configured,
            ),
            Tool(
                "chat_who",
                "Who is in chat",
                CHAT_WHO,
                WhoArguments,
                MembersBody,
                READS_CHAT,
                self.who,
                is_for=lambda role: role.may_call(CHAT_SERVER, "who"),
                is_of_use=self._is_configured,
            ),
        )

    def _is_configured(self) -> bool:
        return self._chat.configured

    async def send(self, order: SendArguments, call: Call) -> Answer:
        return Answer(SentBody.model_validate(await self._call("send", order, call)))

    async def read(self, order: ReadArguments, call: Call) -> Answer:
        return Answer(MessagesBody.model_validate(await self._call("read", order, call)))

    async def who(self, order: WhoArguments, call: Call) -> Answer:
        return Answer(MembersBody.model_validate(await self._call("who", order, call)))

    async def _call(self, tool: str, order: BaseModel, call: Call) -> Any:
        self._chat.require_configured()
        arguments = order.model_dump(by_alias=True, exclude_none=True)
        result = await self._direct_calls.call(call.caller, new_execution_id(), CHAT_SERVER, tool, arguments)
        return result["structuredContent"]
