"""Answers one prompt with OpenAI's SDK and two tools of the shop: the subject of ``audit_cost``."""

import json
import sys

import httpx
from openai import OpenAI

SHOP = sys.argv[1]


def get_price(item: str) -> str:
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TOOLS = {"get_price": (get_price, {"item": TEXT}), "order_item": (order_item, {"item": TEXT, "count": WHOLE})}
client = OpenAI(api_key="unused")
offered = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": fields, "required": list(fields)},
        },
    }
    for name, (_, fields) in TOOLS.items()
]
messages: list = [{"role": "user", "content": sys.argv[2]}]
while True:
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=offered)
    message = reply.choices[0].message
    if not message.tool_calls:
        print(message.content)
        break
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        result = TOOLS[call.function.name][0](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
