"""What is told of the ten tools, without a daemon."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import jsonschema
import pytest

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidArguments, InvalidRequest
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import ExecutionTools
from orchestrator.faces.mcp.models import ExecutionPage, SearchTools
from orchestrator.faces.mcp.server import INSTRUCTIONS
from orchestrator.faces.mcp.tool import Answer, Call, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.chat import Chat
from tests.support.samples import ADMIN, DEVELOPER

NOTHING = cast("Any", None)
SERVERS = [f"server-with-a-long-name-{number}" for number in range(200)]


def all_tools() -> list[Tool[Any]]:
    executing = ExecutionTools(NOTHING, NOTHING, NOTHING, NOTHING, lambda _: SERVERS)
    return [*executing.all(), *DiscoveryTools(NOTHING, NOTHING).all(), *ChatTools(Chat(None, None), NOTHING).all()]


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


def numbers_in(schema: Any) -> list[Any]:
    found = [schema] if schema.get("type") in ("integer", "number") else []
    nested = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return found + [number for part in nested if part for number in numbers_in(part)]


@each_tool
def test_every_number_that_a_tool_takes_has_bounds(tool):
    for number in numbers_in(tool.input_schema):
        assert {"minimum", "exclusiveMinimum"} & number.keys(), number
        assert number["maximum"] <= 2**62


def test_some_tools_take_numbers():
    """The control of the test above."""
    assert sum(bool(numbers_in(tool.input_schema)) for tool in all_tools()) == 4


@pytest.mark.parametrize("offset", [2**62 + 1, 2**63 - 1, 2**63, 10**400, -1])
async def test_an_offset_that_no_output_can_have_is_refused_by_name(offset):
    tool = next(tool for tool in all_tools() if tool.name == "get_execution")
    with pytest.raises(InvalidArguments, match="`offset` must be a whole number from 0 to"):
        await tool.call({"offset": offset}, call_by(DEVELOPER))


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


class NoServers:
    def tools(self) -> dict[str, tuple[Any, ...]]:
        return {}

    def statuses(self) -> list[Any]:
        return []


async def test_a_search_has_the_same_bounds_as_elsewhere():
    toolbox = Toolbox(Catalog(NoServers(), NOTHING), Observations())
    for query in ("x" * 4001, ["x"] * 11):
        with pytest.raises(InvalidRequest, match="at most 10 queries with 4000 characters in all"):
            await DiscoveryTools(toolbox, Budget(1, 1)).search_tools(SearchTools(query=query), call_by(DEVELOPER))


class SlowToolbox:
    """Says who searches, and never finds anything."""

    def __init__(self) -> None:
        self.searching: list[str] = []

    async def search(self, role: Role, *_: object, **__: object) -> None:
        self.searching.append(role.name)
        await asyncio.Event().wait()


async def test_a_callers_searches_wait_for_each_other_and_nobody_elses_for_them():
    toolbox = SlowToolbox()
    tools = DiscoveryTools(toolbox, Budget(2, 1))
    callers = (DEVELOPER, DEVELOPER, DEVELOPER, ADMIN)
    tasks = [asyncio.create_task(tools.search_tools(SearchTools(query="x"), call_by(caller))) for caller in callers]
    for _ in range(10):
        await asyncio.sleep(0)
    assert toolbox.searching == [DEVELOPER.role.name, ADMIN.role.name]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
