"""Orders two mugs with httpx. Arguments: the model's address, another model's, the shop's."""

import json
import sys
import time
import uuid

import httpx

MODELS, SHOP = sys.argv[1:3], sys.argv[3]
TOOL = {"type": "function", "function": {"name": "place_order", "parameters": {"type": "object"}}}
KEY = uuid.uuid4().hex


class Failed(Exception):
    pass


def send(client: httpx.Client, method: str, url: str, **more) -> dict:
    """Send up to three times, as late as the server asks; its quota is not asked again."""
    reason: object = None
    for number in range(3):
        try:
            reply = client.request(method, url, **more)
        except httpx.TransportError as error:
            reason = repr(error)
        else:
            if reply.is_success:
                try:
                    return reply.json()
                except ValueError as error:
                    reason = error
            else:
                reason = f"{reply.status_code} {reply.text}"
                if reply.status_code < 500 and "retry-after" not in reply.headers:
                    break
                time.sleep(float(reply.headers.get("retry-after", 0)))
        time.sleep(0.2 * number)
    raise Failed(reason)


def ask(client: httpx.Client, messages: list) -> dict:
    reason: object = None
    for model in MODELS:
        try:
            body = {"model": "m", "messages": messages, "tools": [TOOL]}
            message = send(client, "POST", f"{model}/chat/completions", json=body)["choices"][0]["message"]
            for call in message.get("tool_calls") or []:
                json.loads(call["function"]["arguments"])
                if call["function"]["name"] not in ("get_price", "place_order"):
                    raise Failed(f"unknown tool {call['function']['name']}")
            if message.get("tool_calls") or message["content"]:
                return message
            reason = "an empty answer"
        except (Failed, LookupError, ValueError) as error:
            reason = error
    raise Failed(reason)


def main() -> str:
    messages: list = [{"role": "user", "content": "Order two mugs"}]
    order = None
    with httpx.Client(timeout=3) as client:
        while True:
            try:
                message = ask(client, messages)
            except Failed as error:
                return f"Your order is placed: {order}" if order else f"I could not order: {error}"
            if not message.get("tool_calls"):
                return message["content"]
            messages.append(message)
            for call in message["tool_calls"]:
                if call["function"]["name"] == "get_price":
                    result = send(client, "GET", f"{SHOP}/price")
                else:
                    arguments = json.loads(call["function"]["arguments"])
                    headers = {"Idempotency-Key": KEY}
                    try:
                        result = send(client, "POST", f"{SHOP}/orders", json=arguments, headers=headers)
                        order = json.dumps(result)
                    except Failed as error:
                        return f"I do not know whether your order was placed: {error}"
                content = json.dumps(result)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


print(main())
