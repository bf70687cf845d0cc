from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orchestrator.catalog.catalog import Catalog
from orchestrator.domain.access import Role
from orchestrator.domain.errors import InvalidArguments, RoomDenied, ToolNotFound, ToolUnavailable
from orchestrator.domain.execution import RoomLimits
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamState, UpstreamStatus
from orchestrator.service.budget import Budget
from orchestrator.service.chat import Chat
from orchestrator.service.chat_server import ChatServer
from orchestrator.service.rooms import ResultRoom, Rooms
from orchestrator.service.servers import Servers
from orchestrator.service.sessions import Sessions
from tests.unit.adapters.homeserver import FakeHomeserver

TALKER = Role("developer", frozenset({"files"}), chat_rooms=frozenset({"#team:x"}))
MUTE = Role("guest", frozenset({"*"}))
ROOM = ResultRoom(Rooms(RoomLimits()), Budget(1, 1), "developer", "e")
SESSIONS = Sessions(Rooms(RoomLimits()), "developer")


class FakeUpstreams:
    def __init__(self, *names: str) -> None:
        self._names = names
        self.called: list[tuple[str, str]] = []
        self.opened: list[str] = []

    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        return {name: (Tool(name, "send"),) for name in self._names}

    def statuses(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus(name, UpstreamState.CONNECTED, 1, None, 0) for name in self._names]

    async def open_session(self, server: str, owner: Sessions, timeout_seconds: float) -> None:
        self.opened.append(server)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float,
        room: ResultRoom,
        owner: Sessions,
    ) -> CallResult:
        self.called.append((server, tool))
        return {"content": []}


class NoTokens:
    def count(self, text: str) -> int:
        return 0


@pytest.fixture
def homeserver() -> FakeHomeserver:
    return FakeHomeserver()


@pytest.fixture
def server(homeserver: FakeHomeserver) -> ChatServer:
    return ChatServer(Chat(homeserver, "#team:x"))


def catalog_of(servers: Servers) -> Catalog:
    catalog = Catalog(servers, NoTokens())
    catalog.refresh()
    return catalog


def paths(catalog: Catalog, role: Role) -> list[str]:
    return [tool.path for tool in catalog.visible(role)]


def test_chat_is_offered_beside_the_upstreams_to_roles_with_rooms(server):
    catalog = catalog_of(Servers(FakeUpstreams("files"), server))
    assert paths(catalog, TALKER) == ["files/send", "chat/send", "chat/read", "chat/who"]
    assert paths(catalog, MUTE) == ["files/send"]


def test_chat_that_is_not_configured_is_not_offered():
    servers = Servers(FakeUpstreams("files"), ChatServer(Chat(None, None)))
    assert list(servers.tools()) == ["files"]
    assert [status.server for status in servers.statuses()] == ["files"]


@pytest.mark.parametrize("configured", [True, False])
async def test_an_upstream_cannot_take_the_name_of_chat(homeserver, configured):
    upstreams = FakeUpstreams("chat")
    servers = Servers(upstreams, ChatServer(Chat(homeserver if configured else None, "#team:x")))
    expected = ["chat/send", "chat/read", "chat/who"] if configured else []
    assert paths(catalog_of(servers), TALKER) == expected
    (status,) = servers.statuses()
    assert (status.state, status.tools) == (UpstreamState.DOWN, 0)
    assert "rename it" in (status.problem or "")
    if not configured:
        with pytest.raises(ToolNotFound):
            await servers.call("chat", "send", {"text": "x"}, 5, TALKER, ROOM, SESSIONS)
    assert upstreams.called == []


async def test_a_call_reaches_the_room_in_the_callers_role(server, homeserver):
    servers = Servers(FakeUpstreams("files"), server)
    result = await servers.call("chat", "send", {"text": "hello", "transactionId": "t"}, 5, TALKER, ROOM, SESSIONS)
    assert homeserver.posted == [("!team:x", "hello")]
    expected = {"room": "#team:x", "messageId": "$1", "transactionId": "t"}
    assert result["structuredContent"] == expected
    assert json.loads(result["content"][0]["text"]) == expected
    with pytest.raises(RoomDenied, match="role guest"):
        await servers.call("chat", "send", {"text": "hello"}, 5, MUTE, ROOM, SESSIONS)


async def test_other_servers_are_called_as_before(server):
    upstreams = FakeUpstreams("files")
    await Servers(upstreams, server).call("files", "send", {}, 5, TALKER, ROOM, SESSIONS)
    assert upstreams.called == [("files", "send")]


async def test_only_other_servers_keep_sessions_for_executions(server):
    upstreams = FakeUpstreams("files")
    for name in ("chat", "files"):
        await Servers(upstreams, server).open_session(name, SESSIONS, 5)
    assert upstreams.opened == ["files"]


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("send", {}, "text"),
        (
            "send",
            {"text": "x", "html": "<b>"},
            "`html` is unknown; known are `text`, `room`, `transactionId`.",
        ),
        ("send", {"text": 1}, "text"),
        ("read", {"limit": 0}, "limit"),
        ("read", {"limit": "5"}, "limit"),
        ("who", {"room": 5}, "room"),
    ],
)
async def test_arguments_that_do_not_fit_are_named(server, homeserver, tool, arguments, complaint):
    with pytest.raises(InvalidArguments, match=complaint):
        await server.call(TALKER, tool, arguments)
    assert homeserver.posted == []


async def test_a_tool_that_chat_does_not_have_is_not_found(server):
    with pytest.raises(ToolNotFound, match="chat/shout"):
        await server.call(TALKER, "shout", {})


async def test_a_call_ends_at_its_timeout(server, homeserver, monkeypatch):
    async def never(*_: object) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(homeserver, "send", never)
    with pytest.raises(ToolUnavailable, match=r"within 0\.01 s; it may still have acted"):
        await Servers(FakeUpstreams(), server).call("chat", "send", {"text": "x"}, 0.01, TALKER, ROOM, SESSIONS)


def test_the_schemas_are_plain(server):
    send, read, _ = server.tools
    assert send.input_schema["required"] == ["text"]
    assert send.input_schema["additionalProperties"] is False
    assert set(send.input_schema["properties"]) == {"text", "room", "transactionId"}
    assert send.input_schema["properties"]["room"]["type"] == "string"
    assert read.input_schema["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": 20,
        "description": "The most messages to return.",
    }
    assert '"title"' not in json.dumps([tool.input_schema for tool in server.tools])
    assert read.output_schema is not None
    assert {"type": "null"} in read.output_schema["properties"]["before"]["anyOf"]
