"""The replies about tools, as they are sent: their keys, in order, decide how many tokens they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
from pydantic.json_schema import models_json_schema

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.disclosure import Detail, compact, plain
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.replies import FoundTools, Reply, ToolInfo, ToolListing
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus

EVERYTHING = Role("admin", frozenset({"*"}))
ADD = Tool(
    "math",
    "add",
    "Adds numbers. All of them.",
    {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    {"type": "object", "properties": {"sum": {"type": "number"}}},
    {"readOnlyHint": True},
    "Add",
)
STOP = Tool("math", "stop")


class Characters:
    def count(self, text: str) -> int:
        return len(text)


class Source:
    def __init__(self, *tools: Tool, problem: str | None = None) -> None:
        self._tools = tools
        self._problem = problem

    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        return {tool.server: tuple(each for each in self._tools if each.server == tool.server) for tool in self._tools}

    def statuses(self) -> Sequence[UpstreamStatus]:
        return [UpstreamStatus("disk", UpstreamState.DOWN, 0, self._problem, 0.0)]


def toolbox(*tools: Tool, problem: str | None = None) -> Toolbox:
    catalog = Catalog(Source(*tools, problem=problem), Characters())
    catalog.refresh()
    return Toolbox(catalog, Observations())


def without_metrics(reply: Reply) -> str:
    text = compact(reply)
    return text[: text.index(',"metrics":')]


async def test_a_listing_is_sent_by_server_and_names_problems_only_if_there_are_any() -> None:
    assert without_metrics(await toolbox(ADD, STOP).listing(EVERYTHING, Detail.NAME)) == '{"tools":{"math":"add stop"}'
    with_problem = await toolbox(ADD, problem="It is down.").listing(EVERYTHING, Detail.DESCRIPTION)
    assert without_metrics(with_problem) == (
        '{"tools":{"math":{"add":"Adds numbers."}},"problems":{"disk":"It is down."}'
    )


async def test_found_tools_are_sent_with_as_much_as_was_asked_for() -> None:
    found = [
        without_metrics(await toolbox(STOP).search(EVERYTHING, ["stop"], detail, server=None, limit=5))
        for detail in Detail
    ]
    assert found == [
        '{"tools":[{"server":"math","name":"stop"}]',
        '{"tools":[{"server":"math","name":"stop","description":""}]',
        '{"tools":[{"server":"math","name":"stop","description":"","inputSchema":{}}]',
    ]


async def test_one_tool_is_sent_with_its_schemas_then_each_language_then_where_its_result_is_known_from() -> None:
    sent = json.loads(compact(await toolbox(ADD).info(EVERYTHING, "math", "add")))
    assert list(sent) == [
        "server",
        "name",
        "description",
        "inputSchema",
        "title",
        "outputSchema",
        "annotations",
        *Language,
        "resultShape",
        "metrics",
    ]
    assert sent["resultShape"] == "declared"
    assert sent["python"] == {
        "import": "from servers.math import add",
        "signature": 'add(*, a: float) -> {"sum"?: float}',
        "example": "from servers.math import add\nresult = add(a=1.5)",
    }


async def test_metrics_come_last_and_count_themselves() -> None:
    reply = await toolbox(STOP).listing(EVERYTHING, Detail.NAME)
    text = compact(reply)
    assert list(json.loads(text)["metrics"]) == ["tokens", "fullTokens", "savedPercent"]
    assert reply.metrics.tokens == pytest.approx(len(text), abs=3)


async def test_what_an_author_wrote_is_sent_however_odd_or_deep() -> None:
    schema: dict[str, object] = {}
    for _ in range(300):
        schema = {"properties": {"x": schema}}
    odd = Tool("s", "t", "half \ud83d", MappingProxyType(schema))
    reply = await toolbox(odd).listing(EVERYTHING, Detail.FULL)
    assert json.loads(compact(reply))["tools"]["s"] == [{"name": "t", "description": "half ?", "inputSchema": schema}]
    assert json.loads(json.dumps(reply, default=plain))["tools"]["s"][0]["description"] == "half \ud83d"


def test_the_replies_describe_themselves_for_the_api() -> None:
    models = [(model, "serialization") for model in (ToolListing, FoundTools, ToolInfo)]
    _, document = models_json_schema(models)
    info = document["$defs"]["ToolInfo"]
    assert {"server", "inputSchema", *Language, "resultShape", "metrics"} <= set(info["properties"])
    assert info["properties"]["python"] == {"$ref": "#/$defs/Usage"}
    assert set(document["$defs"]["Usage"]["properties"]) == {"import", "signature", "example"}
    assert document["$defs"]["ToolEntry"]["properties"]["inputSchema"]["type"] == "object"
