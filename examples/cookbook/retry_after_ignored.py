"""The shop asks for a pause of some seconds, and the tool sends the order again at once."""

import sys
import time

import httpx
from loop import SHOP, TOOLS, converse
from openai import OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI()


def ask(messages):
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
    return reply.choices[0].message


def order_item(item, count):
    for _ in range(5):
        reply = httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}, timeout=5)
        if reply.status_code != 429:
            break
        pause = float(reply.headers.get("Retry-After", 1))
        time.sleep(pause if MENDED else 0.1)  # mended: the pause that the shop asks for
    return reply.raise_for_status().text


print(converse(ask, order_item))
