"""An agent of openai-agents that has our tools."""

from __future__ import annotations

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


async def main() -> None:
    set_tracing_disabled(True)
    openai = AsyncOpenAI(base_url=f"{os.environ['MODEL_URL']}/v1", api_key="none")
    headers = {"Authorization": f"Bearer {os.environ['CODE_EXECUTOR_KEY']}"}
    async with MCPServerStreamableHttp({"url": os.environ["MCP_URL"], "headers": headers}) as server:
        model = MODELS[os.environ["DIALECT"]](model="scripted", openai_client=openai)
        agent = Agent(name="tester", instructions="Run it.", model=model, mcp_servers=[server])
        print((await Runner.run(agent, "Run the program.")).final_output)


asyncio.run(main())
