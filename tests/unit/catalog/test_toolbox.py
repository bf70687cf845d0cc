"""A tool that is not there is answered with the one that was probably meant, if the role may know it."""

from __future__ import annotations

import pytest

from orchestrator.domain.access import Role
from orchestrator.domain.errors import ToolNotFound
from orchestrator.domain.tools import Tool
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
