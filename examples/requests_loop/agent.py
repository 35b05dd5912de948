"""Answers one prompt without any SDK: chat completions by hand, and two tools of the shop."""

import json
import os
import sys
import time

import requests

MODEL, SHOP = os.environ["OPENAI_BASE_URL"], os.environ["SHOP_URL"]
KEY = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
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


def ask(messages, tries=3):
    body = {"model": "gpt-5-mini", "messages": messages, "tools": TOOLS}
    for left in reversed(range(tries)):
        reply = requests.post(f"{MODEL}/chat/completions", json=body, headers=KEY, timeout=20)
        if (reply.status_code != 429 and reply.status_code < 500) or not left:
            reply.raise_for_status()
            return reply.json()["choices"][0]["message"]
        time.sleep(float(reply.headers.get("Retry-After", 1)))


messages = [{"role": "user", "content": sys.argv[1]}]
for _ in range(6):
    messages.append(ask(messages))
    if not messages[-1].get("tool_calls"):
        break
    for call in messages[-1]["tool_calls"]:
        result = use(call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(messages[-1]["content"])
