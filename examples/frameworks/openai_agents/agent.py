"""Answers one prompt with the OpenAI Agents SDK and two tools of the shop."""

import sys

import httpx
from agents import Agent, Runner, function_tool

SHOP = "http://127.0.0.1:9000"


@function_tool
def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


@function_tool
def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


agent = Agent(name="shopper", model="gpt-5-mini", tools=[get_price, order_item])
print(Runner.run_sync(agent, sys.argv[1]).final_output)
