"""An agent of pydantic-ai that has our tools."""

from __future__ import annotations

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatModel}


async def main() -> None:
    provider = OpenAIProvider(base_url=f"{os.environ['MODEL_URL']}/v1", api_key="none")
    headers = {"Authorization": f"Bearer {os.environ['CODE_EXECUTOR_KEY']}"}
    tools = MCPToolset(os.environ["MCP_URL"], headers=headers)
    agent = Agent(MODELS[os.environ["DIALECT"]]("scripted", provider=provider), toolsets=[tools])
    async with agent:
        print((await agent.run("Run the program.")).output)


asyncio.run(main())
