"""The SDK tries three times, the loop around it three times: nine requests for one call."""

import sys
import time

from loop import TOOLS, converse
from openai import APIError, APIStatusError, OpenAI

MENDED = sys.argv[1:] == ["mended"]
client = OpenAI(max_retries=0 if MENDED else 2)  # mended: one layer retries


def ask(messages):
    for left in (2, 1, 0):
        try:
            reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
            return reply.choices[0].message
        except APIError as error:
            used_up = isinstance(error, APIStatusError) and error.code == "insufficient_quota"
            if not left or (MENDED and used_up):  # mended: a used-up quota does not come back by a retry
                raise SystemExit(f"the model does not answer: {error}") from None
            time.sleep(0.2)


print(converse(ask))
