"""Answers one prompt with LlamaIndex's function agent and two tools of the shop."""

import asyncio
import sys

import httpx
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

SHOP = "http://127.0.0.1:9000"


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


async def answer(prompt):
    agent = FunctionAgent(llm=OpenAI("gpt-5-mini"), tools=[get_price, order_item])
    return await agent.run(prompt)


print(asyncio.run(answer(sys.argv[1])))
