"""The model's stream stalls, and the client waits for it without a limit."""

import sys

import httpx
from loop import TOOLS, converse
from openai import APIError, OpenAI

MENDED = sys.argv[1:] == ["mended"]
# mended: a limit for the silence between two bytes, and one more try
client = OpenAI(timeout=3 if MENDED else None)


def streamed(messages):
    with client.chat.completions.stream(model="gpt-5-mini", messages=messages, tools=TOOLS) as stream:
        return stream.get_final_completion().choices[0].message


def ask(messages):
    try:
        return streamed(messages)
    except (APIError, httpx.TransportError):
        if not MENDED:
            raise
        return streamed(messages)


print(converse(ask))
