"""Answers one prompt with LangChain's agent and two tools of the shop."""

import sys

import httpx
from langchain.agents import create_agent

SHOP = "http://127.0.0.1:9000"


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


agent = create_agent("openai:gpt-5-mini", tools=[get_price, order_item])
state = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})
print(state["messages"][-1].text)
