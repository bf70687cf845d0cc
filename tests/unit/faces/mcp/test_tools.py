"""What is told of the tools, without a daemon."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, cast

import jsonschema
import pytest
from pydantic import BaseModel

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidArguments, InvalidRequest
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import PACKAGES_LINE, ExecutionTools
from orchestrator.faces.mcp.models import ExecutionPage, SearchTools, ServerListing
from orchestrator.faces.mcp.plain_schema import plain_schema_of
from orchestrator.faces.mcp.server import INSTRUCTIONS
from orchestrator.faces.mcp.skill_tools import SkillTools
from orchestrator.faces.mcp.tool import Answer, Call, Tool
from orchestrator.faces.mcp.workspace_tools import WorkspaceTools
from orchestrator.service.budget import Budget
from orchestrator.service.chat import Chat
from tests.support.samples import ADMIN, DEVELOPER

NOTHING = cast("Any", None)
SERVERS = [f"server-with-a-long-name-{number}" for number in range(200)]


# What Gemini's function declarations know of JSON Schema, which is the least of all.
KNOWN_TO_EVERY_CLIENT = {
    *("nullable", "type", "description", "default", "enum", "properties", "required", "items"),
    *("minimum", "maximum", "minLength", "maxLength"),
}


def all_tools(servers: list[str] = SERVERS, chat: Any = None) -> list[Tool[Any]]:
    executing = ExecutionTools(*[NOTHING] * 6, lambda _: servers, max_request_bytes=6 * 1024 * 1024 + 65536)
    return [
        *executing.all(),
        WorkspaceTools(NOTHING, NOTHING).list_workspaces,
        *DiscoveryTools(NOTHING, NOTHING, NOTHING).all(),
        *SkillTools(NOTHING, NOTHING).all(),
        *ChatTools(Chat(chat, None), NOTHING).all(),
    ]


def call_by(caller: Caller) -> Call:
    async def report(progress: float, message: str) -> None: ...

    return Call(caller, report, asyncio.Event())


CHAT_TOOLS = ["chat_send", "chat_read", "chat_who"]
CHATTER = Role("chatter", frozenset(), chat_rooms=frozenset({"*"}))
each_tool = pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)


def test_there_are_thirteen():
    assert len({tool.name for tool in all_tools()}) == 13


@each_tool
def test_a_description_fits_and_has_an_example_that_the_schema_accepts(tool):
    description = tool.listed_for(CHATTER, structured=False).description or ""
    assert len(description.encode()) <= 2048
    example = description.split("Example: ")[1].split("\n\n")[0]
    jsonschema.validate(json.loads(example), tool.input_schema)


def test_an_id_in_an_example_is_a_whole_one():
    for tool in all_tools():
        example = json.loads(tool.description.split("Example: ")[1].split("\n\n")[0])
        assert len(example.get("executionId", "0" * 32)) == 32


def schema_for(role: Role) -> dict[str, Any]:
    listed = all_tools()[0].listed_for(role, structured=False)
    return cast("dict[str, Any]", listed.input_schema["properties"])


@pytest.mark.parametrize(
    ("limit", "maximum", "background"),
    [
        (None, 300, "Return at once."),
        (60.0, 60, "Return at once."),
        (7200.0, 7200, "Return at once; needed for over 300 s."),
    ],
)
def test_a_role_is_told_its_own_longest_time(limit, maximum, background):
    told = schema_for(replace(CHATTER, max_timeout_seconds=limit))
    assert (told["timeoutSeconds"]["maximum"], told["background"]["description"]) == (maximum, background)
    assert told["timeoutSeconds"]["minimum"] == 0.1


def test_it_is_told_how_much_may_be_sent():
    assert schema_for(CHATTER)["files"]["description"] == "Up to 6 MiB."


@each_tool
def test_schemas_are_plain_objects(tool):
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)


def schemas_within(schema: dict[str, Any]) -> list[dict[str, Any]]:
    nested = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(found for part in nested for found in schemas_within(part))]


@each_tool
def test_every_argument_has_one_plain_type_that_every_client_understands(tool):
    for schema in schemas_within(tool.input_schema):
        assert isinstance(schema["type"], str), schema
        assert schema.keys() <= KNOWN_TO_EVERY_CLIENT
        assert "null" not in json.dumps(schema).replace('"nullable"', "")


@each_tool
def test_what_is_not_required_may_be_null(tool):
    """What smolagents would otherwise ask its model for."""
    nullable = {name for name, schema in tool.input_schema["properties"].items() if schema.get("nullable")}
    assert nullable == tool.input_schema["properties"].keys() - set(tool.input_schema.get("required", ()))


@each_tool
def test_null_for_an_argument_is_as_if_it_were_not_given(tool):
    example = json.loads((tool.description or "").split("Example: ")[1].split("\n\n")[0])
    optional = tool.input_schema["properties"].keys() - example.keys()
    with_nulls = {**example, **dict.fromkeys(optional)}
    orders = []

    async def note(order: Any, _: Call) -> Answer:
        orders.append(order)
        return Answer(order)

    noting = replace(tool, run=note)
    for arguments in (example, with_nulls):
        asyncio.run(noting.call(arguments, call_by(DEVELOPER)))
    assert orders[0] == orders[1]


@each_tool
async def test_null_for_a_required_argument_says_that_it_is_missing(tool):
    for name in tool.input_schema.get("required", ()):
        with pytest.raises(InvalidArguments, match=f"`{name}` is missing"):
            await tool.call({name: None}, call_by(DEVELOPER))


def test_an_argument_with_two_types_is_refused_when_it_is_described():
    class Ambiguous(BaseModel):
        either: str | int

    with pytest.raises(TypeError, match="one plain type"):
        plain_schema_of(Ambiguous)


@each_tool
def test_structure_is_declared_only_where_it_is_asked_for(tool):
    assert tool.listed_for(CHATTER, structured=False).output_schema is None
    assert tool.listed_for(CHATTER, structured=True).output_schema == tool.output_schema


def test_the_tools_that_every_task_needs_are_always_loaded():
    """Under the key that Claude Code reads."""
    listed = [tool.listed_for(CHATTER, structured=False) for tool in all_tools()]
    loaded = {tool.name for tool in listed if (tool.meta or {}).get("anthropic/alwaysLoad") is True}
    assert loaded == {"execute_code", "search_tools", "get_tool_info"}


SKILL_TOOLS = {"save_skill", "run_skill"}


def tokens_of(role: Role, names: set[str]) -> int:
    """Count what a client carries of tools, with the three servers of a default installation."""
    listed = [
        tool.listed_for(role, structured=False)
        for tool in all_tools(["filesystem", "memory", "postgres"])
        if tool.name in names
    ]
    shown = [tool.model_dump(include={"name", "description", "input_schema"}, by_alias=True) for tool in listed]
    return O200kTokenCounter().count(json.dumps(shown, separators=(",", ":")))


@pytest.mark.parametrize("role", [CHATTER, replace(CHATTER, max_timeout_seconds=86400.0)])
def test_what_a_client_carries_of_the_tools_is_small(role):
    """Without chat."""
    useful = {tool.name for tool in all_tools() if tool.is_of_use()}
    assert tokens_of(role, useful - SKILL_TOOLS) <= 1500
    assert tokens_of(role, useful & SKILL_TOOLS) <= 380


def test_the_packages_are_named_in_one_line():
    assert PACKAGES_LINE in (all_tools()[0].listed_for(CHATTER, structured=False).description or "")
    assert "\n" not in PACKAGES_LINE


def test_an_image_without_packages_is_not_said_to_have_them():
    executing = ExecutionTools(*[NOTHING] * 6, lambda _: [], max_request_bytes=1024, with_packages=False)
    assert "numpy" not in (executing.all()[0].listed_for(CHATTER, structured=False).description or "")


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
    assert sum(bool(numbers_in(tool.input_schema)) for tool in all_tools()) == 6


@pytest.mark.parametrize("offset", [2**31, 2**62 + 1, 2**63 - 1, 2**63, 10**400, -1])
async def test_an_offset_that_no_output_can_have_is_refused_by_name(offset):
    tool = next(tool for tool in all_tools() if tool.name == "get_execution")
    with pytest.raises(InvalidArguments, match="`offset` must be a whole number from 0 to"):
        await tool.call({"offset": offset}, call_by(DEVELOPER))


def test_the_instructions_say_what_matters_in_their_first_512_characters():
    first = INSTRUCTIONS[:512]
    found = [first.index(word) for word in ("search_tools", "signature", "execute_code", "Print only what matters")]
    assert found == sorted(found)


def test_chat_is_for_roles_with_rooms_only():
    hermit = Role("hermit", frozenset({"*"}))
    listed = {role.name: [tool.name for tool in all_tools() if tool.is_for(role)] for role in (CHATTER, hermit)}
    assert len(listed["chatter"]) == 13
    assert [name for name in listed["chatter"] if name not in listed["hermit"]] == CHAT_TOOLS


def test_chat_is_of_use_only_where_it_is_configured():
    useful = [[tool.name for tool in all_tools(chat=chat) if tool.is_of_use()] for chat in (None, object())]
    assert [name for name in useful[1] if name not in useful[0]] == CHAT_TOOLS


def test_one_denied_chat_tool_is_not_listed():
    reader = Role("reader", frozenset(), denied_tools=("chat/send",), chat_rooms=frozenset({"*"}))
    assert "chat_send" not in [tool.name for tool in all_tools() if tool.is_for(reader)]


def test_what_was_not_asked_for_is_left_out_of_the_reply_and_the_reply_fits_its_schema():
    page = ExecutionPage(execution_id="e", state="finished", stream="stdout", total_bytes=0)
    result = Answer(page).as_result(structured=True)
    assert "matches" not in result.structured_content
    schema = next(tool for tool in all_tools() if tool.name == "get_execution").output_schema
    jsonschema.validate(result.structured_content, schema)
    assert json.loads(result.content[0].text) == result.structured_content


def test_a_reply_is_text_alone_unless_structure_is_asked_for():
    result = Answer(ServerListing(servers=[]), "none").as_result(structured=False)
    assert (result.content[0].text, result.structured_content) == ("none", None)


def test_a_text_that_has_no_bytes_can_be_sent():
    assert Answer(ServerListing(servers=[]), "a\ud800b").as_result(structured=False).content[0].text == "a?b"


@pytest.mark.parametrize(
    ("query", "queries"),
    [
        ("list the tables", ["list the tables"]),
        ("list the tables; take a screenshot", ["list the tables", " take a screenshot"]),
        ("list the tables\ntake a screenshot\n", ["list the tables", "take a screenshot"]),
        (["list; tables", "screenshot"], ["list; tables", "screenshot"]),
        (" ; ", [""]),
    ],
)
def test_several_queries_come_in_one_text_or_in_a_list(query, queries):
    assert SearchTools(query=query).query == queries


class NoServers:
    def tools(self) -> dict[str, tuple[Any, ...]]:
        return {}

    def statuses(self) -> list[Any]:
        return []


class NoSkills:
    def own_tools(self, caller: Caller, role: Role) -> tuple[()]:
        return ()


async def test_a_search_has_the_same_bounds_as_elsewhere():
    toolbox = Toolbox(Catalog(NoServers(), NOTHING), Observations())
    for query in ("x" * 4001, ["x"] * 11, "x;" * 11):
        with pytest.raises(InvalidRequest, match="at most 10 queries with 4000 characters in all"):
            await DiscoveryTools(toolbox, NoSkills(), Budget(1, 1)).search_tools(
                SearchTools(query=query), call_by(DEVELOPER)
            )


class SlowToolbox:
    """Says who searches, and never finds anything."""

    def __init__(self) -> None:
        self.searching: list[str] = []

    async def search(self, role: Role, *_: object, **__: object) -> None:
        self.searching.append(role.name)
        await asyncio.Event().wait()


async def test_a_callers_searches_wait_for_each_other_and_nobody_elses_for_them():
    toolbox = SlowToolbox()
    tools = DiscoveryTools(toolbox, NoSkills(), Budget(2, 1))
    callers = (DEVELOPER, DEVELOPER, DEVELOPER, ADMIN)
    tasks = [asyncio.create_task(tools.search_tools(SearchTools(query="x"), call_by(caller))) for caller in callers]
    for _ in range(10):
        await asyncio.sleep(0)
    assert toolbox.searching == [DEVELOPER.role.name, ADMIN.role.name]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_skill", {"name": "x", "input": f'{{"v": [{",".join(["[]"] * 20_000)}]}}'}),
        ("run_skill", {"name": "x", "input": f'{{"v": "{"x" * 300_000}"}}'}),
        ("run_skill", {"name": "x", "input": "table=orders"}),
        ("save_skill", {"name": "x", "description": "x", "code": "x", "examples": f"[{','.join(['[]'] * 20_000)}]"}),
        ("save_skill", {"name": "x", "description": "x", "code": "x", "examples": f"[{','.join(['{}'] * 6)}]"}),
        ("save_skill", {"name": "x", "description": "x", "code": "x", "examples": "status=shipped"}),
    ],
)
async def test_json_that_is_written_as_text_has_the_limits_of_a_body_and_is_told_as_json(tool, arguments):
    """What is in a string was not counted when the body came in."""
    chosen = next(each for each in all_tools() if each.name == tool)
    with pytest.raises(InvalidArguments, match="JSON"):
        await chosen.call(arguments, call_by(DEVELOPER))
