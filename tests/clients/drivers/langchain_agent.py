"""An agent of LangChain that has our tools."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def hear(progress: float, total: float | None, message: str | None, context: Any) -> None:
    print(json.dumps({"progress": progress, "message": message}), file=sys.stderr, flush=True)


async def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ['CODE_EXECUTOR_KEY']}"}
    server = {"transport": "streamable_http", "url": os.environ["MCP_URL"], "headers": headers}
    tools = await MultiServerMCPClient({"code-executor": server}, callbacks=Callbacks(on_progress=hear)).get_tools()
    model = ChatOpenAI(
        model="gpt-5",
        base_url=f"{os.environ['MODEL_URL']}/v1",
        api_key="none",
        use_responses_api=os.environ["DIALECT"] == "responses",
    )
    agent = create_agent(model, tools)
    result = await agent.ainvoke({"messages": [{"role": "user", "content": "Run the program."}]})
    print(result["messages"][-1].text)


asyncio.run(main())
