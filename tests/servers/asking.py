"""What is asked of servers that we wrote."""

from __future__ import annotations

import json

from tests.support.api import Api


async def printed(api: Api, program: str) -> object:
    """Run a program that has to complete, and return what it printed as JSON."""
    result = await api.python(program)
    assert result["outcome"] == "completed", result["stderr"]
    return json.loads(result["output"])


async def require_described_and_typed(api: Api, server: str, count: int) -> None:
    _, listing = await api.get("/tools?detail=full")
    tools = listing["tools"][server]
    assert len(tools) == count
    assert [tool["name"] for tool in tools if not tool["description"]] == []
    shapes = [(await api.get(f"/tools/info/{server}/{tool['name']}"))[1]["resultShape"] for tool in tools]
    assert set(shapes) == {"declared"}
