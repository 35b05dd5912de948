"""Answer one prompt with OpenAI's Agents SDK and the tools of the server that SHOP_MCP_JSON starts."""

import asyncio
import json
import os
import sys

from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServerStdio


async def answer(prompt: str) -> str:
    """Return the model's final answer. Tracing is off, so nothing is sent to the SDK's tracing server."""
    command, *args = json.loads(os.environ["SHOP_MCP_JSON"])
    async with MCPServerStdio({"command": command, "args": args}) as shop:
        agent = Agent(name="shopper", model="gpt-5-mini", mcp_servers=[shop])
        result = await Runner.run(agent, prompt, run_config=RunConfig(tracing_disabled=True))
        return str(result.final_output)


sys.stdout.write(asyncio.run(answer(sys.argv[1])))
