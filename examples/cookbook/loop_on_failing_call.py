"""The shop refuses the order for good, the model asks for the same call again and again."""

import sys

from loop import PROMPT, TOOLS, order_item, use
from openai import OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI()


def answer():
    messages, failed = [{"role": "user", "content": PROMPT}], set()
    for _ in range(10):
        reply = client.chat.completions.create(model="scripted-stubborn", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            same = (call.function.name, call.function.arguments)
            if MENDED and same in failed:  # mended: the same call with the same error ends it
                return f"I could not do it: {call.function.name} failed twice in the same way."
            result = use(order_item, call)
            if result["content"].startswith("error"):
                failed.add(same)
            messages.append(result)
    return "I could not do it in ten steps."


print(answer())
