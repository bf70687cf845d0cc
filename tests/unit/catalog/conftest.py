from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.domain.tools import Tool


@pytest.fixture(scope="session")
def sixty_three_tools() -> list[Tool]:
    """Nine servers as the product fronts them, with descriptions and schemas of published ones."""
    servers = json.loads(Path(__file__).with_name("sixty_three_tools.json").read_text())
    return [
        Tool(server, tool["name"], tool["description"], tool["inputSchema"])
        for server, tools in servers.items()
        for tool in tools
    ]
