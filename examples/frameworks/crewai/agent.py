"""Answers one prompt with a crew of one, CrewAI's, and two tools of the shop."""

import sys

import httpx
from crewai import Agent
from crewai.tools import tool

SHOP = "http://127.0.0.1:9000"


@tool
def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


@tool
def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


shopper = Agent(
    role="Shopper",
    goal="Do what the user asks for.",
    backstory="You buy in the shop.",
    llm="openai/gpt-5-mini",
    tools=[get_price, order_item],
)
print(shopper.kickoff(sys.argv[1]).raw)
