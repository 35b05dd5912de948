"""The tool's HTTP client sends an order again if its reply is lost: two orders for one."""

import sys
import uuid

import httpx
from loop import SHOP, TOOLS, converse
from openai import OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI()


def ask(messages):
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
    return reply.choices[0].message


def order_item(item, count):
    order = {"item": item, "count": count}
    # mended: one key for all tries of one call, by which the shop knows a repetition
    headers = {"Idempotency-Key": str(uuid.uuid4())} if MENDED else {}
    for left in (2, 1, 0):
        try:
            reply = httpx.post(f"{SHOP}/orders", json=order, headers=headers, timeout=5)
            return reply.raise_for_status().text
        except httpx.HTTPError:
            if not left:
                raise


print(converse(ask, order_item))
