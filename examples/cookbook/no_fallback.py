"""The provider goes down after the order: the agent ends with a stack trace, and the order stays."""

import sys

from loop import TOOLS, converse
from openai import APIError, OpenAI

MENDED = sys.argv[1:] == ["mended"]
providers = [(OpenAI(max_retries=1), "gpt-5-mini")]
if MENDED:  # mended: a second provider, which gets the same conversation
    groq = OpenAI(max_retries=1, base_url="https://api.groq.com/openai/v1")
    providers.append((groq, "openai/gpt-oss-120b"))


def ask(messages):
    for place, (client, model) in enumerate(providers, start=1):
        try:
            reply = client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
            return reply.choices[0].message
        except APIError:
            if place == len(providers):
                raise


print(converse(ask))
