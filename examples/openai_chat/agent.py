"""Answers one prompt with OpenAI's SDK (chat completions) and two tools of the shop."""

import json
import os
import sys

import requests
from openai import OpenAI

SHOP = os.environ["SHOP_URL"]
ITEM, COUNT = {"type": "string", "description": "the item's name"}, {"type": "integer"}


def tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


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
    client = OpenAI(timeout=20)  # it finds its address in OPENAI_BASE_URL
    messages = [{"role": "user", "content": prompt}]
    for _ in range(6):
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = use(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "I could not finish that."


print(answer(sys.argv[1]))
