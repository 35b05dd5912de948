"""Answers one prompt with Strands Agents and two tools of the shop."""

import sys

import httpx
from strands import Agent, tool
from strands.models.openai import OpenAIModel

SHOP = "http://127.0.0.1:9000"


@tool
def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


@tool
def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


agent = Agent(model=OpenAIModel(model_id="gpt-5-mini"), tools=[get_price, order_item], callback_handler=None)
print(agent(sys.argv[1]))
