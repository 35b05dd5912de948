"""Buys in the shop: the model says what to order, and an order that is not answered is sent again.

ORDER_KEY says by what the shop may know the repetition: header, field, or none.
"""

import json
import os
import uuid

import requests

HOW = os.environ.get("ORDER_KEY", "none")
TOOL = {
    "name": "order_item",
    "description": "Order an item of the shop.",
    "parameters": {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item", "count"],
    },
}
http = requests.Session()


def buy(prompt, context=None):
    """A report; Wirefault's context names the episode, which the shop notes as the customer."""
    calls = ask([{"role": "user", "content": prompt}]).get("tool_calls")
    if not calls:
        return {"status": "failed", "answer": "there was nothing to order"}
    ordered = order(json.loads(calls[0]["function"]["arguments"]), context.episode if context else "me")
    if ordered is None:
        return {"status": "unsure", "answer": "the shop does not answer: it may have been ordered"}
    return {"status": "done", "answer": f"ordered, number {ordered['id']}"}


def ask(messages):
    body = {"model": "gpt-5-mini", "messages": messages, "tools": [{"type": "function", "function": TOOL}]}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    return http.post(url, json=body, headers=headers, timeout=30).json()["choices"][0]["message"]


def order(arguments, customer, tries=3):
    """The shop's answer; None if it did not answer."""
    key, body, headers = uuid.uuid4().hex, {**arguments, "customer": customer}, {}
    if HOW == "header":
        headers["Idempotency-Key"] = key
    if HOW == "field":
        body["order_id"] = key
    for _ in range(tries):
        try:
            reply = http.post(f"{os.environ['SHOP_URL']}/orders", json=body, headers=headers, timeout=5)
            reply.raise_for_status()
            return reply.json()
        except requests.RequestException:
            continue
    return None
