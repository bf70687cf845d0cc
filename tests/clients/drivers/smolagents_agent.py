"""An agent of smolagents that has our tools."""

from __future__ import annotations

import os

from smolagents import OpenAIServerModel, ToolCallingAgent, ToolCollection

headers = {"Authorization": f"Bearer {os.environ['CODE_EXECUTOR_KEY']}"}
server = {"url": os.environ["MCP_URL"], "transport": "streamable-http", "headers": headers}
model = OpenAIServerModel("scripted", api_base=f"{os.environ['MODEL_URL']}/v1", api_key="none")
with ToolCollection.from_mcp(server, trust_remote_code=True, structured_output=False) as collection:
    agent = ToolCallingAgent(tools=[*collection.tools], model=model, max_steps=20, verbosity_level=0)
    print(agent.run("Run the program."))
