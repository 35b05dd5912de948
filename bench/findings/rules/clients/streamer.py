"""An agent that reads the model's calls from a stream, executes them and prints the model's answer.

streamer.py PROMPT [OPTIONS]
"""

import json
import os
import re
import sys
from argparse import ArgumentParser

import httpx
from calling import call

parser = ArgumentParser()
parser.add_argument("prompt")
parser.add_argument("--sdk", action="store_true", help="read with OpenAI's SDK")
parser.add_argument(
    "--check", default="", choices=["", "fail", "again"], help="reaction to an incomplete stream"
)
parser.add_argument("--repair", action="store_true", help="repair arguments that are not JSON")
parser.add_argument("--answer", default="", help="print this instead of the model's answer")
options = parser.parse_args([word.replace("~", " ") for word in sys.argv[1:]])
TOOL = {
    "type": "function",
    "function": {"name": "place_order", "parameters": {"type": "object"}},
}


def events_by_sdk(messages):
    from openai import OpenAI

    stream = OpenAI(max_retries=0).chat.completions.create(
        model="gpt-5", messages=messages, tools=[TOOL], stream=True
    )
    for chunk in stream:
        yield chunk.model_dump()


def events_by_lines(messages):
    body = {"model": "gpt-5", "stream": True, "messages": messages, "tools": [TOOL]}
    headers = {"Authorization": "Bearer made-up"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    try:
        with httpx.stream("POST", url, json=body, headers=headers, timeout=30) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line[6:])
    except httpx.HTTPError:
        if options.check == "fail":
            sys.exit("the stream broke off")


def ask(messages):
    """Return the text, the id, name and arguments of a call, and whether the stream was complete."""
    text, id, name, arguments, ended = "", "", "", "", False
    for event in events_by_sdk(messages) if options.sdk else events_by_lines(messages):
        for choice in event.get("choices") or ():
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or ():
                id = piece.get("id") or id
                name = piece["function"].get("name") or name
                arguments += piece["function"].get("arguments") or ""
            ended = ended or choice.get("finish_reason") in ("stop", "tool_calls")
    return text, id, name, arguments, ended


def values_of(arguments):
    if not options.repair:
        return json.loads(arguments)
    pairs = re.findall(r'"(\w+)"\s*:\s*("[^"]*"|-?\d+)', arguments)
    return {name: json.loads(value) for name, value in pairs}


messages = [{"role": "user", "content": options.prompt}]
for _ in range(6):
    text, id, name, arguments, ended = ask(messages)
    if not ended and options.check == "again":
        continue
    if not ended and options.check == "fail":
        sys.exit("the stream has no end")
    if not name:
        print(text)
        break
    result = call("shop", "/orders", values_of(arguments))
    if options.answer:
        print(options.answer)
        break
    function = {"name": name, "arguments": arguments}
    messages += [
        {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]
