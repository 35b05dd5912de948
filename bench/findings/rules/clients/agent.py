"""A tool-calling agent in the usual loop, with the SDK of OpenAI or Anthropic, or without an SDK.

agent.py PROMPT [OPTIONS]
"""

import json
import re
import sys
import time
from argparse import ArgumentParser

from calling import Failed, call

parser = ArgumentParser()
parser.add_argument("prompt")
parser.add_argument("--sdk", default="openai", choices=["openai", "anthropic", "none"])
parser.add_argument("--retries", type=int, default=0, help="retries by the SDK")
parser.add_argument("--code-tries", type=int, default=1, help="tries of each model request, by the code")
parser.add_argument("--tool-tries", type=int, default=1, help="tries of each tool call, by the code")
parser.add_argument("--whole", type=int, default=1, help="tries of the whole task")
parser.add_argument(
    "--errors", default="text", choices=["text", "raise"], help="report a failed call to the model, or raise"
)
parser.add_argument("--bad-arguments", default="raise", choices=["raise", "repair", "report", "drop"])
parser.add_argument("--empty", default="end", choices=["end", "again", "say", "fail"])
parser.add_argument("--timeout", type=float, default=30)
parser.add_argument("--wait", type=float, default=0.05)
parser.add_argument("--link", default="shop")
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--answer", default="", help="print this instead of the model's text")
parser.add_argument("--on-error", default="", help="answer if the model fails; without it, crash")
parser.add_argument("--key", action="store_true", help="send an idempotency key with each order")
options = parser.parse_args([word.replace("~", " ") for word in sys.argv[1:]])

TOOLS = {
    "place_order": ({"item": "string", "count": "integer"}, "POST", "/orders"),
    "charge": ({"item": "string", "count": "integer"}, "POST", "/charges"),
    "look_up_price": ({"item": "string"}, "GET", "/price"),
    "list_orders": ({}, "GET", "/orders"),
    "job": ({"name": "string"}, "GET", "/jobs/{name}"),
    "missing": ({}, "GET", "/missing"),
    "change": ({"name": "string", "item": "string"}, "PUT", "/orders/{name}"),
}
SCHEMAS = {
    name: {"type": "object", "properties": {field: {"type": kind} for field, kind in fields.items()}}
    for name, (fields, _, _) in TOOLS.items()
}


def tries(times, action):
    for left in reversed(range(times)):
        try:
            return action()
        except Exception:
            if not left:
                raise
            time.sleep(options.wait)


def execute(name, arguments):
    _, method, path = TOOLS[name]
    path = path.format(**arguments) if "{" in path else path
    if method == "GET" and "item" in arguments:
        path += f"?item={arguments['item']}"
    body = None if method == "GET" else arguments
    return tries(options.tool_tries, lambda: call(options.link, path, body, method, timeout=options.timeout))


def result_of(name, arguments):
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        assert isinstance(values, dict)
    except (ValueError, AssertionError):
        if options.bad_arguments == "raise":
            raise
        if options.bad_arguments == "report":
            return f"Error: the arguments of {name} are not JSON: {arguments}"
        if options.bad_arguments == "drop":
            return call(options.link, "/price")
        values = repaired(str(arguments))
    try:
        return execute(name, values)
    except Failed as error:
        if options.errors == "raise":
            raise
        return f"Error: {error}"


def repaired(text):
    """Return the complete fields of an object that breaks off."""
    pairs = re.findall(r'"(\w+)"\s*:\s*("[^"]*"|-?\d+)', text)
    return {name: json.loads(value) for name, value in pairs}


class Chat:
    """OpenAI's chat completions, with its SDK or over plain HTTP."""

    def __init__(self):
        self.messages = [{"role": "user", "content": options.prompt}]
        self.tools = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in SCHEMAS.items()
        ]
        if options.sdk == "openai":
            from openai import OpenAI

            self.client = OpenAI(max_retries=options.retries, timeout=options.timeout)

    def ask(self):
        body = {"model": "gpt-5", "messages": self.messages, "tools": self.tools}
        if options.sdk == "openai":
            message = self.client.chat.completions.create(**body).choices[0].message.model_dump()
        else:
            bearer = {"Authorization": "Bearer made-up"}
            text = call("model", "/chat/completions", body, headers=bearer, timeout=options.timeout)
            message = json.loads(text)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        self.messages.append(
            {"role": "assistant", "content": message["content"], "tool_calls": calls or None}
        )
        if not calls:
            self.messages[-1].pop("tool_calls")
        return message["content"] or "", [
            (each["id"], each["function"]["name"], each["function"]["arguments"]) for each in calls
        ]

    def tell(self, results):
        self.messages += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]


class Claude:
    """Anthropic's messages, with its SDK."""

    def __init__(self):
        from anthropic import Anthropic

        self.client = Anthropic(max_retries=options.retries, timeout=options.timeout)
        self.messages = [{"role": "user", "content": options.prompt}]
        self.tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]

    def ask(self):
        reply = self.client.messages.create(
            model="claude", max_tokens=500, messages=self.messages, tools=self.tools
        )
        blocks = [block.model_dump() for block in reply.content]
        self.messages.append({"role": "assistant", "content": blocks or "..."})
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]

    def tell(self, results):
        content = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
        self.messages.append({"role": "user", "content": content})


def carry_out():
    chat = Claude() if options.sdk == "anthropic" else Chat()
    for _ in range(options.rounds):
        text, calls = tries(options.code_tries, chat.ask)
        if calls:
            chat.tell([(id, result_of(name, arguments)) for id, name, arguments in calls])
            continue
        if not text and options.empty == "again":
            chat.messages.append({"role": "user", "content": "Please go on."})
            continue
        if not text and options.empty == "say":
            return "The model had nothing to say."
        if not text and options.empty == "fail":
            sys.exit("the model's reply is empty")
        return options.answer or text
    return "I stopped after too many steps, the task is not done."


try:
    print(tries(options.whole, carry_out))
except Exception as error:
    if not options.on_error:
        raise
    print(options.on_error.replace("{error}", str(error)))
