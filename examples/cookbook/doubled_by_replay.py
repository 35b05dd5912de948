"""After a failure of the model, the whole conversation starts anew, with its order."""

import sys

from loop import PROMPT, TOOLS, converse
from openai import APIError, OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI(max_retries=0)


def ask(messages):
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
    return reply.choices[0].message


def answer():
    messages = [{"role": "user", "content": PROMPT}]
    for left in (2, 1, 0):
        if not MENDED:  # mended: continue the conversation, which has the order's result
            messages = [{"role": "user", "content": PROMPT}]
        try:
            return converse(ask, messages=messages)
        except APIError:
            if not left:
                raise


print(answer())
