"""The recipes' common part: one tool, and the loop between the model and the tool."""

import json
import os

import httpx

SHOP = os.environ.get("SHOP_URL", "http://127.0.0.1:9000")
PROMPT = 'Order 2 "green tea"'
PARAMETERS = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "description": "the item's name"},
        "count": {"type": "integer"},
    },
    "required": ["item", "count"],
}
TOOL = {"name": "order_item", "description": "Order an item of the shop.", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": TOOL}]


def order_item(item, count):
    """Order once, without a retry."""
    reply = httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}, timeout=5)
    return reply.raise_for_status().text


def use(tool, call):
    """Return the message with the tool's result, or with its error: the model must know of it."""
    try:
        result = tool(**json.loads(call.function.arguments))
    except (httpx.HTTPError, ValueError, TypeError) as error:
        result = f"error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": result}


def converse(ask, tool=order_item, messages=None):
    """Ask the model until it answers without a call. ``messages`` grows with the conversation."""
    messages = [{"role": "user", "content": PROMPT}] if messages is None else messages
    while True:
        message = ask(messages)
        if not message.tool_calls:
            return message.content
        messages.append(message)
        messages += [use(tool, call) for call in message.tool_calls]
