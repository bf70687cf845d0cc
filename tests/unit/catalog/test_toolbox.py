"""A tool that is not there is answered with the one that was probably meant, if the role may know it."""

from __future__ import annotations

import pytest

from orchestrator.catalog.disclosure import Detail
from orchestrator.domain.access import Role
from orchestrator.domain.errors import ToolNotFound
from orchestrator.domain.tools import SkillTraits, Tool
from tests.unit.catalog.test_replies import EVERYTHING, toolbox

TOOLS = (Tool("postgres", "execute_sql"), Tool("filesystem", "read_text_file"), Tool("vault", "read_secret"))


@pytest.mark.parametrize(
    ("server", "tool", "meant"),
    [
        ("postgres", "executesql", "postgres/execute_sql"),
        ("postgresql", "execute_sql", "postgres/execute_sql"),
        ("Filesystem", "Read_Text_File", "filesystem/read_text_file"),
    ],
)
async def test_the_tool_that_was_probably_meant_is_named(server: str, tool: str, meant: str) -> None:
    with pytest.raises(ToolNotFound) as raised:
        await toolbox(*TOOLS).info(EVERYTHING, server, tool)
    assert raised.value.message == f"There is no tool {server}/{tool}. Did you mean {meant}?"


async def test_nothing_is_guessed_where_nothing_is_alike() -> None:
    with pytest.raises(ToolNotFound) as raised:
        await toolbox(*TOOLS).info(EVERYTHING, "github", "merge")
    assert raised.value.message == "There is no tool github/merge."


async def test_a_tool_that_the_role_may_not_call_is_not_named() -> None:
    reader = Role("reader", frozenset({"*"}), denied_tools=("vault/read_secret",))
    with pytest.raises(ToolNotFound) as raised:
        await toolbox(*TOOLS).info(reader, "vault", "read_secrets")
    assert "read_secret?" not in raised.value.message


DATABASE = (
    Tool("postgres", "list_schemas", "Lists all schemas in the database, by name."),
    Tool("postgres", "execute_sql", "Runs one SQL statement on the database."),
    Tool("skills", "count_orders", "Counts something else.", skill=SkillTraits("1" * 64, "python", ())),
)
OWN = (
    Tool("skills", "count_orders", "Counts orders with a status.", skill=SkillTraits("2" * 64, "python", ())),
    Tool("skills", "draw_chart", "Draws a chart.", skill=SkillTraits("3" * 64, "python", ())),
)


async def test_what_an_author_kept_is_found_where_it_fits_in_place_of_what_has_its_name() -> None:
    found = await toolbox(*DATABASE).search(
        EVERYTHING, ["count orders with a status"], Detail.DESCRIPTION, server=None, limit=3, own=OWN
    )
    assert (found.tools[0].name, found.tools[0].description) == ("count_orders", "Counts orders with a status.")
    assert [each.name for each in found.tools].count("count_orders") == 1
    found = await toolbox(*DATABASE).search(
        EVERYTHING, ["list the schemas of the database"], Detail.NAME, server=None, limit=3, own=OWN
    )
    assert found.tools[0].name == "list_schemas"
