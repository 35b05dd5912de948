"""Sends messages and does sums: it is asked over HTTP, or with a prompt for its argument."""

import os
import re
import sys

import requests
from flask import Flask, request

MESSAGES = "https://messages.example/message"  # nothing leads elsewhere but the lab
CALCULATOR = os.environ["CALCULATOR_URL"] + "/calc"
app = Flask("agent")


def answer(prompt: str) -> str:
    order = re.fullmatch(r'Send (\w+) "(.+)"', prompt)
    try:
        if order:
            post(MESSAGES, {"to": order[1], "body": order[2]})
            return f"{order[1]} has your message."
        result = post(CALCULATOR, {"expression": re.sub(r"[^0-9+*/(). -]", "", prompt).strip()})
        return f"It is {result['result']}."
    except requests.RequestException as error:
        return f"I could not do that: {type(error).__name__}."


def post(url: str, body: dict) -> dict:
    reply = requests.post(url, json=body, timeout=5)
    reply.raise_for_status()
    return reply.json()


@app.post("/ask")
def ask() -> str:
    return answer(request.get_json()["prompt"])


if __name__ == "__main__":
    if sys.argv[1:]:
        print(answer(sys.argv[1]))
    else:
        app.run(host="0.0.0.0", port=8099)
