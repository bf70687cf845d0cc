"""An agent of pydantic-ai that has our tools."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatModel}


async def hear(progress: float, total: float | None, message: str | None) -> None:
    print(json.dumps({"progress": progress, "message": message}), file=sys.stderr, flush=True)


async def main() -> None:
    provider = OpenAIProvider(base_url=f"{os.environ['MODEL_URL']}/v1", api_key="none")
    headers = {"Authorization": f"Bearer {os.environ['CODE_EXECUTOR_KEY']}"}
    # By default the second failure in a row ends the agent, as if a failed program were a broken tool.
    tools = MCPToolset(os.environ["MCP_URL"], headers=headers, progress_handler=hear, tool_error_behavior="failed")
    agent = Agent(MODELS[os.environ["DIALECT"]]("scripted", provider=provider), toolsets=[tools])
    async with agent:
        print((await agent.run("Run the program.")).output)


asyncio.run(main())
