"""An MCP server of a hostile author, run as a program: `python -m tests.figures.hostile_server`. It prints its port.

Its tool `large` gives as much as a result may have; `/many/mcp` lists thousands of tools, others each time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from aiohttp import web

LARGE_BYTES = 15_900_000
MANY_TOOLS = 10_000
LARGE = json.dumps({"content": [{"type": "text", "text": "x" * LARGE_BYTES}]})

versions = itertools.count()


def listing(name: str) -> dict[str, Any]:
    if name != "many":
        return {"tools": [{"name": "large", "inputSchema": {"type": "object"}}]}
    version = next(versions)
    properties = {f"p{number}": {"type": "string", "description": "word " * 10} for number in range(8)}
    schema = {"type": "object", "properties": properties}
    return {"tools": [{"name": f"tool_{version}_{n}", "inputSchema": schema} for n in range(MANY_TOOLS)]}


async def answer(request: web.Request) -> web.Response:
    message = await request.json()
    match message.get("method"):
        case "initialize":
            result = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
        case "tools/list":
            result = json.dumps(listing(request.match_info["name"]))
        case "tools/call":
            result = LARGE
        case _:
            return web.Response(status=202)
    text = f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {result}}}'
    return web.Response(text=text, content_type="application/json")


async def serve() -> None:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{name}/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
