"""What is told of the ten tools, without a daemon."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import jsonschema
import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidArguments
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import ExecutionTools
from orchestrator.faces.mcp.models import ExecutionPage
from orchestrator.faces.mcp.server import INSTRUCTIONS
from orchestrator.faces.mcp.tool import Answer, Call, Tool
from orchestrator.service.chat import Chat
from tests.support.samples import DEVELOPER

NOTHING = cast("Any", None)
SERVERS = [f"server-with-a-long-name-{number}" for number in range(200)]


def all_tools() -> list[Tool[Any]]:
    executing = ExecutionTools(NOTHING, NOTHING, NOTHING, lambda _: SERVERS)
    return [*executing.all(), *DiscoveryTools(NOTHING).all(), *ChatTools(Chat(None, None), NOTHING).all()]


def call_by(caller: Caller) -> Call:
    async def report(progress: float, message: str) -> None: ...

    return Call(caller, report, asyncio.Event())


CHATTER = Role("chatter", frozenset(), chat_rooms=frozenset({"*"}))
each_tool = pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)


def test_there_are_ten():
    assert len({tool.name for tool in all_tools()}) == 10


@each_tool
def test_a_description_fits_and_has_an_example_that_the_schema_accepts(tool):
    description = tool.listed_for(CHATTER).description or ""
    assert len(description.encode()) <= 2048
    example = description.split("Example: ")[1].split("\n\n")[0]
    jsonschema.validate(json.loads(example), tool.input_schema)


@each_tool
def test_schemas_are_plain_objects(tool):
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)


@each_tool
def test_annotations_say_what_a_tool_may_do(tool):
    reads = tool.name.startswith(("search_", "get_", "list_", "chat_read", "chat_who"))
    assert tool.annotations.read_only_hint is reads
    assert reads or tool.annotations.destructive_hint is (tool.name != "chat_send")


@each_tool
async def test_unknown_arguments_are_refused_by_name(tool):
    with pytest.raises(InvalidArguments, match="surprise"):
        await tool.call({"surprise": 1}, call_by(DEVELOPER))


def test_the_instructions_say_what_matters_in_their_first_512_characters():
    first = INSTRUCTIONS[:512]
    found = [first.index(word) for word in ("search_tools", "signature", "execute_code", "Print only what matters")]
    assert found == sorted(found)


def test_chat_is_listed_for_roles_with_rooms_only():
    hermit = Role("hermit", frozenset({"*"}))
    listed = {role.name: [tool.name for tool in all_tools() if tool.is_for(role)] for role in (CHATTER, hermit)}
    assert len(listed["chatter"]) == 10
    assert [name for name in listed["chatter"] if name not in listed["hermit"]] == [
        "chat_send",
        "chat_read",
        "chat_who",
    ]


def test_one_denied_chat_tool_is_not_listed():
    reader = Role("reader", frozenset(), denied_tools=("chat/send",), chat_rooms=frozenset({"*"}))
    assert "chat_send" not in [tool.name for tool in all_tools() if tool.is_for(reader)]


def test_what_was_not_asked_for_is_left_out_of_the_reply_and_the_reply_fits_its_schema():
    page = ExecutionPage(execution_id="e", state="finished", stream="stdout", total_bytes=0)
    result = Answer(page).as_result()
    assert "matches" not in result.structured_content
    schema = next(tool for tool in all_tools() if tool.name == "get_execution").output_schema
    jsonschema.validate(result.structured_content, schema)
    assert json.loads(result.content[0].text) == result.structured_content
