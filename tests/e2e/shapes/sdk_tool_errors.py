"""OpenAI's SDK with its own retries; a tool's exception becomes its result. Arguments: model, shop."""

import json
import sys

import requests
from openai import OpenAI, OpenAIError

MODEL, SHOP = sys.argv[1:]
client = OpenAI(base_url=MODEL, api_key="unused", timeout=5)


def use(name: str, arguments: str) -> str:
    try:
        order = name != "get_price"
        url, body = (SHOP + "/orders", json.loads(arguments)) if order else (SHOP + "/price", None)
        reply = requests.request("POST" if order else "GET", url, json=body, timeout=5)
        reply.raise_for_status()
        return reply.text
    except (requests.RequestException, ValueError) as error:
        return json.dumps({"error": str(error)})


messages = [{"role": "user", "content": "Order two mugs"}]
try:
    while True:
        message = client.chat.completions.create(model="m", messages=messages).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            text = use(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    print(message.content or "")
except OpenAIError as error:
    print("The model could not be reached:", error)
