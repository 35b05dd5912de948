"""Answers one prompt with Pydantic AI and two tools of the shop."""

import sys

import httpx
from pydantic_ai import Agent

SHOP = "http://127.0.0.1:9000"


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


agent = Agent("openai:gpt-5-mini", tools=[get_price, order_item])
print(agent.run_sync(sys.argv[1]).output)
