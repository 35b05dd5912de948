"""Server-sent events read by hand, and an apology for each failure. Arguments: model, shop."""

import json
import sys
from contextlib import suppress

import httpx

MODEL, SHOP = sys.argv[1:]


def complete(messages: list) -> dict:
    text, calls = "", []
    body = {"model": "m", "messages": messages, "stream": True}
    with httpx.stream("POST", f"{MODEL}/chat/completions", json=body, timeout=5) as reply:
        reply.raise_for_status()
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                text += delta.get("content") or ""
                calls += delta.get("tool_calls") or []
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def use(function: dict) -> str:
    if function["name"] == "get_price":
        return httpx.get(f"{SHOP}/price", timeout=5).raise_for_status().text
    return (
        httpx.post(f"{SHOP}/orders", json=json.loads(function["arguments"]), timeout=5)
        .raise_for_status()
        .text
    )


messages: list = [{"role": "user", "content": "Order two mugs"}]
with suppress(httpx.HTTPError):
    while messages[-1]["role"] != "assistant":
        message = complete(messages)
        messages.append(message)
        for call in message.get("tool_calls", []):
            text = use(call["function"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    print(messages[-1]["content"])
    sys.exit()
print("Sorry, the order failed.")
