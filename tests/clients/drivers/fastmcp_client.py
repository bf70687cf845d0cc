"""Calls the tool once, with fastmcp, and prints what it got; with `cancel` it gives up at the first progress."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.auth import BearerAuth

HEARD = asyncio.Event()


async def hear(progress: float, total: float | None, message: str | None) -> None:
    print(json.dumps({"progress": progress, "message": message}), file=sys.stderr, flush=True)
    HEARD.set()


async def main() -> None:
    arguments = json.loads(os.environ["ARGUMENTS"])
    async with Client(os.environ["MCP_URL"], auth=BearerAuth(os.environ["CODE_EXECUTOR_KEY"])) as client:
        call = client.call_tool("execute_code", arguments, progress_handler=hear, raise_on_error=False)
        if sys.argv[1:] != ["cancel"]:
            result = await call
            content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
            print(
                json.dumps(
                    {"content": content, "structured": result.structured_content, "isError": bool(result.is_error)}
                )
            )
            return
        running = asyncio.ensure_future(call)
        await asyncio.wait_for(HEARD.wait(), 30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        # Stay connected: the server must hear of it otherwise than by a lost connection.
        await asyncio.Event().wait()


asyncio.run(main())
