"""Answers one prompt with AutoGen's assistant and two tools of the shop."""

import asyncio
import sys

import httpx
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

SHOP = "http://127.0.0.1:9000"


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


async def answer(prompt):
    model = OpenAIChatCompletionClient(model="gpt-5-mini")
    agent = AssistantAgent("shopper", model, tools=[get_price, order_item])
    result = await agent.run(task=prompt)
    await model.close()
    return result.messages[-1].content


print(asyncio.run(answer(sys.argv[1])))
