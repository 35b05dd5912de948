"""Orders two mugs with OpenAI's SDK. Arguments: the model's address, another model's, the shop's."""

import json
import sys
import time
import urllib.error
import urllib.request

from openai import APIError, APIStatusError, OpenAI, RateLimitError

*addresses, shop = sys.argv[1:]
clients = [OpenAI(base_url=url, api_key="unused", timeout=4, max_retries=0) for url in addresses]
names = ("get_price", "place_order")
tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]
key = f"order-{time.time_ns()}"


def complete(messages):
    for client in clients:
        for pause in (0.3, 0.6, 0):
            try:
                reply = client.chat.completions.create(model="m", messages=messages, tools=tools)
                message = reply.choices[0].message
                calls = [(call, json.loads(call.function.arguments)) for call in message.tool_calls or []]
                if any(call.function.name not in names for call, _ in calls):
                    continue
                if calls or message.content:
                    return message, calls
            except RateLimitError as error:
                if error.code == "insufficient_quota":
                    break
                pause = float(error.response.headers.get("retry-after", pause))
            except APIStatusError as error:
                if error.status_code < 500:
                    break
            except (APIError, ValueError):
                pass
            time.sleep(pause)
    return None, []


def at_shop(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    for left in (3, 2, 1, 0):
        try:
            with urllib.request.urlopen(
                urllib.request.Request(shop + path, data, headers), timeout=4
            ) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            wait = float(error.headers.get("Retry-After") or 0.5)
            if not left or error.code in (400, 403, 404, 422):
                return {"error": f"refused with {error.code}"}
        except (OSError, ValueError):
            wait = 0.5
        time.sleep(wait)
    return {"error": "no reply, so the shop may have done it or not"}


messages = [{"role": "user", "content": "Order two mugs"}]
done = ""
while True:
    message, calls = complete(messages)
    if message is None:
        print(f"Your order is placed: {done}" if done else "Sorry, no model answers: nothing was ordered.")
        break
    if not calls:
        print(message.content)
        break
    messages.append(message.model_dump(exclude_none=True))
    for call, arguments in calls:
        wants_order = call.function.name == "place_order"
        result = at_shop("/orders", arguments) if wants_order else at_shop("/price")
        if wants_order and "error" not in result:
            done = json.dumps(result)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
