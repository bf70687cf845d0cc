"""Records the tools that the servers of the running stack list: python -m tests.servers.recording [NAME…]

Wrappers, search and roles are tested with what is recorded: also with servers whose account nobody has here.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.stack import PROJECT, OptionalServers, direct

RECORDED = PROJECT / "tests" / "support" / "recorded_servers.json"
RUNNING = OptionalServers("", PROJECT, (), {})
KEPT = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "recording", "version": "1"}}


def main() -> None:
    entries = RUNNING.for_a_daemon_on_this_machine()["mcpServers"]
    recorded: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name in sys.argv[1:] or entries:
        recorded[name] = [{key: tool[key] for key in KEPT if key in tool} for tool in listed(entries[name])]
        print(f"{name}: {len(recorded[name])} tools")
    write(RECORDED, recorded)


def listed(entry: dict[str, Any]) -> list[dict[str, Any]]:
    session = ask(entry, {}, "initialize", CLIENT)[1]
    tools: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    while True:
        result, _ = ask(entry, session, "tools/list", page)
        tools += result["tools"]
        if not result.get("nextCursor"):
            return tools
        page = {"cursor": result["nextCursor"]}


def ask(entry: dict[str, Any], session: dict[str, str], method: str, params: Any) -> tuple[Any, dict[str, str]]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(entry["url"], body, headers | entry["headers"] | session)
    with direct().open(request, timeout=60) as reply:
        text = reply.read().decode()
        number = reply.headers.get("Mcp-Session-Id")
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return json.loads("".join(lines) or text)["result"], {"Mcp-Session-Id": number} if number else {}


def write(path: Path, recorded: dict[str, Any]) -> None:
    """Write a line for each tool, so that a change of one is seen as such."""
    servers = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools) + "\n]"
        for name, tools in sorted(recorded.items())
    ]
    path.write_text("{\n" + ",\n".join(servers) + "\n}\n")


if __name__ == "__main__":
    main()
