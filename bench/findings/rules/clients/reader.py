"""Print a model's streamed answer, read line by line or with OpenAI's SDK.

reader.py PROMPT [OPTIONS]
"""

import json
import os
import sys
from argparse import ArgumentParser

import httpx

parser = ArgumentParser()
parser.add_argument("prompt")
parser.add_argument("--sdk", action="store_true")
parser.add_argument("--api", default="chat", choices=["chat", "responses", "claude"])
parser.add_argument("--tries", type=int, default=1)
parser.add_argument("--check", default="", choices=["", "mark", "fail", "again", "sorry"])
parser.add_argument("--bad-events", default="skip", choices=["skip", "fail"])
parser.add_argument("--until", default="", help="stop reading after this text")
parser.add_argument("--timeout", type=float, default=30)
parser.add_argument("--plain", action="store_true", help="ask for a whole reply, and accept any reply")
parser.add_argument("--whole-text", action="store_true", help="use the event that repeats the whole text")
options = parser.parse_args([word.replace("~", " ") for word in sys.argv[1:]])
MESSAGES = [{"role": "user", "content": options.prompt}]
PLACES = {
    "chat": ("OPENAI_BASE_URL", "/chat/completions", {"model": "gpt-5", "messages": MESSAGES}),
    "responses": ("RESPONSES_URL", "/responses", {"model": "gpt-5", "input": options.prompt}),
    "claude": (
        "ANTHROPIC_BASE_URL",
        "/v1/messages",
        {"model": "claude", "max_tokens": 500, "messages": MESSAGES},
    ),
}


def by_sdk():
    """Yield the pieces, and None when the stream states the reason for its end."""
    from openai import OpenAI

    client = OpenAI(max_retries=0, timeout=options.timeout)
    for chunk in client.chat.completions.create(model="gpt-5", messages=MESSAGES, stream=True):
        for choice in chunk.choices:
            yield choice.delta.content or ""
            if choice.finish_reason:
                yield None if choice.finish_reason == "stop" else ""


def by_lines():
    variable, path, body = PLACES[options.api]
    url, headers = os.environ[variable] + path, {"Authorization": "Bearer made-up"}
    with httpx.stream(
        "POST", url, json={**body, "stream": True}, headers=headers, timeout=options.timeout
    ) as reply:
        if reply.status_code != 200:
            raise httpx.HTTPError(str(reply.status_code))
        yield from pieces(reply)


def pieces(reply):
    for line in reply.iter_lines():
        if not line.startswith("data:") or line.endswith("[DONE]"):
            continue
        try:
            event = json.loads(line[5:])
            yield piece_of(event)
        except (ValueError, LookupError, TypeError, AttributeError):
            if options.bad_events == "fail":
                raise


def piece_of(event):
    if options.api == "chat":
        choice = event["choices"][0]
        return None if choice.get("finish_reason") == "stop" else choice["delta"].get("content") or ""
    if options.api == "claude":
        if event["type"] == "message_stop":
            return None
        return event.get("delta", {}).get("text") or ""
    if event["type"] == "response.completed":
        return None
    if options.whole_text:
        return event["text"] if event["type"] == "response.output_text.done" else ""
    return event["delta"] if event["type"] == "response.output_text.delta" else ""


def read():
    """Return the text, and whether the stream was complete."""
    text, ended = "", False
    try:
        for piece in by_sdk() if options.sdk else by_lines():
            ended = ended or piece is None
            text += piece or ""
            if options.until and options.until in text:
                return text, True
    except Exception as error:
        if isinstance(error, (ValueError, LookupError)) and options.bad_events == "fail":
            raise
        if options.check == "" and not text:
            raise
    return text, ended


def read_plain():
    variable, path, body = PLACES[options.api]
    reply = httpx.post(os.environ[variable] + path, json=body, timeout=options.timeout)
    try:
        value = reply.json()
        choice = value["choices"][0] if options.api == "chat" else value
        reason = choice.get("finish_reason") or choice.get("stop_reason") or choice.get("status")
        if options.api == "chat":
            text = choice["message"]["content"] or ""
        else:
            text = "".join(block.get("text", "") for block in value["content"])
        return text, reason in ("stop", "end_turn", "completed")
    except (ValueError, LookupError):
        return reply.text, False


for _ in range(options.tries):
    text, ended = read_plain() if options.plain else read()
    if ended or options.check != "again":
        break
if not ended and options.check == "fail":
    sys.exit("the answer broke off")
if not ended and options.check == "mark":
    text += " [the answer is incomplete]"
if not ended and options.check == "sorry":
    text = "Sorry, I cannot say."
print(text)
