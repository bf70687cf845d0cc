"""What the twelve servers of the stack list, recorded by tests/servers/recording.py."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.domain.tools import Tool

RECORDED = Path(__file__).with_name("recorded_servers.json")


def twelve_servers() -> list[Tool]:
    return [
        Tool(
            server=server,
            name=tool["name"],
            description=tool.get("description") or "",
            input_schema=tool["inputSchema"],
            output_schema=tool.get("outputSchema"),
            annotations=tool.get("annotations") or {},
            title=tool.get("title"),
        )
        for server, tools in json.loads(RECORDED.read_text()).items()
        for tool in tools
    ]
