"""Answers one prompt with OpenAI's SDK and the tools of the MCP servers that mcp.json names."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client, StdioServerParameters
from openai import AsyncOpenAI

SERVERS = json.loads(Path(__file__).with_name("mcp.json").read_text())["mcpServers"]


def as_function(tool):
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def text_of(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


async def answer(prompt):
    async with AsyncExitStack() as stack:
        owners, tools = {}, []
        for server in SERVERS.values():
            address = server.get("url") or StdioServerParameters(**server)
            client = await stack.enter_async_context(Client(address))
            for tool in (await client.list_tools()).tools:
                owners[tool.name] = client
                tools.append(as_function(tool))
        model = await stack.enter_async_context(AsyncOpenAI())
        messages = [{"role": "user", "content": prompt}]
        while True:
            reply = await model.chat.completions.create(model="gpt-5-mini", messages=messages, tools=tools)
            message = reply.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message)
            for call in message.tool_calls:
                arguments = json.loads(call.function.arguments)
                result = await owners[call.function.name].call_tool(call.function.name, arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text_of(result)})


print(asyncio.run(answer(sys.argv[1])))
