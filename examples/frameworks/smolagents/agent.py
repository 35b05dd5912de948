"""Answers one prompt with smolagents and two tools of the shop."""

import sys

import httpx
from smolagents import OpenAIModel, ToolCallingAgent, tool

SHOP = "http://127.0.0.1:9000"


@tool
def get_price(item: str) -> str:
    """Get the price of an item in the shop.

    Args:
        item: the item's name
    """
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


@tool
def order_item(item: str, count: int) -> str:
    """Order an item of the shop.

    Args:
        item: the item's name
        count: how many
    """
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


agent = ToolCallingAgent(tools=[get_price, order_item], model=OpenAIModel("gpt-5-mini"))
print(agent.run(sys.argv[1]))
