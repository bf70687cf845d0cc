"""Search and roles on what the twelve servers of the stack list, those that need an account among them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from orchestrator.adapters.access_files import read_book
from orchestrator.catalog.disclosure import Detail
from orchestrator.catalog.search import SearchIndex
from orchestrator.domain.access import Role
from orchestrator.domain.errors import ToolDenied, ToolNotFound
from orchestrator.domain.tools import Tool
from tests.support.recorded_servers import twelve_servers
from tests.unit.catalog.test_replies import toolbox

PROJECT = Path(__file__).resolve().parents[3]
STACK = tomllib.loads((PROJECT / "deploy" / "stack" / "servers.toml").read_text())["servers"]
TOOLS = twelve_servers()
INDEX = SearchIndex(TOOLS)
# What the original gives to developers.
OF_DEVELOPERS = {"postgres", "playwright", "openmemory", "minio", "ib", "timescaledb"}


def tools_of(server: str) -> list[Tool]:
    return [tool for tool in TOOLS if tool.server == server]


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Role]:
    return dict(read_book(PROJECT / "roles.json", tmp_path_factory.mktemp("keys")).roles)


def test_every_server_of_the_stack_is_recorded() -> None:
    assert {tool.server for tool in TOOLS} == set(STACK)
    assert len(TOOLS) > 150


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("read a text file", "filesystem/read_text_file"),
        ("create entities in the knowledge graph", "memory/create_entities"),
        ("run a SQL statement", "postgres/execute_sql"),
        ("take a screenshot of the page", "playwright/browser_take_screenshot"),
        ("upload an object to a bucket", "minio/upload_object"),
        ("store a preference in memory", "openmemory/add_memory"),
        ("create a workflow", "n8n/n8n_create_workflow"),
        ("run an AQL query", "arangodb/arango_query"),
        ("list hypertables", "timescaledb/list_hypertables"),
        ("place an order for a stock", "ib/place_order"),
        ("screen stocks", "tradingview/screen_stocks"),
        ("generate an image from a prompt", "gemini-image/generate_image"),
    ],
)
def test_a_question_finds_the_tool_among_those_of_all_servers(query: str, path: str) -> None:
    assert path in [hit.tool.path for hit in INDEX.search([query], limit=5)]


@pytest.mark.parametrize("server", STACK)
def test_every_tool_is_found_by_its_own_name(server: str) -> None:
    missed = [
        tool.path
        for tool in tools_of(server)
        if tool not in [hit.tool for hit in INDEX.search([tool.name], server=server, limit=5)]
    ]
    assert missed == []


async def test_an_administrator_is_shown_all_twelve_and_a_developer_six(roles: dict[str, Role]) -> None:
    box = toolbox(*TOOLS)
    shown = {name: set((await box.listing(role, Detail.NAME)).tools) for name, role in roles.items()}
    assert shown == {"admin": set(STACK), "developer": OF_DEVELOPERS}


@pytest.mark.parametrize("server", STACK)
async def test_a_developer_calls_searches_and_reads_of_the_tools_of_the_six_alone(
    roles: dict[str, Role], server: str
) -> None:
    box = toolbox(*TOOLS)
    developer = roles["developer"]
    for tool in tools_of(server):
        if server in OF_DEVELOPERS:
            assert box.callable_tool(developer, server, tool.name) == tool
        else:
            with pytest.raises((ToolDenied, ToolNotFound)):
                box.callable_tool(developer, server, tool.name)
            with pytest.raises((ToolDenied, ToolNotFound)):
                await box.info(developer, server, tool.name)
    found = await box.search(developer, [server, tools_of(server)[0].name], Detail.NAME, server=None, limit=50)
    assert {entry.server for entry in found.tools} <= OF_DEVELOPERS
