"""Answers one prompt with Anthropic's SDK and two tools of the shop."""

import os
import sys

import requests
from anthropic import Anthropic

SHOP = os.environ["SHOP_URL"]
ITEM, COUNT = {"type": "string", "description": "the item's name"}, {"type": "integer"}


def tool(name, description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [
    tool("get_price", "Get the price of an item in the shop.", item=ITEM),
    tool("order_item", "Order an item of the shop.", item=ITEM, count=COUNT),
]


def use(name, arguments):
    try:
        if name == "get_price":
            return requests.get(f"{SHOP}/price", params=arguments, timeout=5).text
        return requests.post(f"{SHOP}/orders", json=arguments, timeout=5).text
    except requests.RequestException as error:
        return f"error: {error}"


def answer(prompt):
    client = Anthropic(timeout=20)  # it finds its address in ANTHROPIC_BASE_URL
    messages = [{"role": "user", "content": prompt}]
    for _ in range(6):
        reply = client.messages.create(
            model="claude-sonnet-4-5", max_tokens=1000, messages=messages, tools=TOOLS
        )
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": use(call.name, call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    return "I could not finish that."


print(answer(sys.argv[1]))
