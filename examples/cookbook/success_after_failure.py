"""The tool hides the shop's refusal from the model, so the agent reports an order that does not exist."""

import json
import sys

import httpx
from loop import SHOP, TOOLS, converse
from openai import OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI()


def ask(messages):
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
    return reply.choices[0].message


def order_item(item, count):
    reply = httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}, timeout=5)
    if MENDED:  # mended: a refusal is an error, and the model gets it
        reply.raise_for_status()
    return json.dumps({"ordered": item, "count": count})


print(converse(ask, order_item))
