"""A loop on httpx that sends again at once whatever failed. Arguments: the model's address, the shop's."""

import json
import sys

import httpx

MODEL, SHOP = sys.argv[1:]


def send(method: str, url: str, body: object = None) -> dict:
    for left in (2, 1, 0):
        try:
            return httpx.request(method, url, json=body, timeout=5).raise_for_status().json()
        except httpx.HTTPError:
            if not left:
                raise
    raise AssertionError


messages = [{"role": "user", "content": "Order two mugs"}]
while True:
    message = send("POST", f"{MODEL}/chat/completions", {"model": "m", "messages": messages})["choices"][0][
        "message"
    ]
    if not message.get("tool_calls"):
        print(message["content"] or "")
        break
    messages.append(message)
    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = (
            send("GET", f"{SHOP}/price") if name == "get_price" else send("POST", f"{SHOP}/orders", arguments)
        )
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
