"""Answers one prompt with OpenAI's SDK (Responses API) and two tools of the shop."""

import json
import os
import sys

import requests
from openai import OpenAI

SHOP = os.environ["SHOP_URL"]
ITEM, COUNT = {"type": "string", "description": "the item's name"}, {"type": "integer"}


def tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "name": name, "description": description, "parameters": parameters}


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
    items = [{"role": "user", "content": prompt}]
    for _ in range(6):
        reply = client.responses.create(model="gpt-5-mini", input=items, tools=TOOLS)
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return reply.output_text
        items += reply.output
        for call in calls:
            result = use(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    return "I could not finish that."


print(answer(sys.argv[1]))
