"""A scripted model served over real HTTP, with an engine for the needs of each test."""

import json

import requests

from bench.asgi_server import serve
from wirefault.model_server.playbooks import Answer, PlannedCall, Value
from wirefault.model_server.server import create_app

PROMPT = "What's the weather in Paris?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Gets the weather of a city", "parameters": CITY}
CALL = (PlannedCall("get_weather", {"city": "Paris, the long way round"}),)
DONE = Answer("done", "It is 8.4 celsius in Paris.", (Value(8.4, "celsius", "temp"),), {"city": "Paris"})


REPORT = {"name": "Report", "description": "Report to the user; ends the task.", "parameters": CITY}


def tool(function):
    return {"type": "function", "function": function}


def decide(messages, tools, persona, seed, parallel, withheld):
    """Call the first tool until it has answered; the answer contains the persona on request."""
    if messages[-1]["content"] == "who?":
        return Answer("done", persona.value)
    return CALL if tools and messages[-1]["role"] == "user" else DONE


def serving(**options):
    return serve(create_app(decide, clock=lambda: 1772409600.0, **options))


def body(prompt=PROMPT, **more):
    return {"model": "scripted", "messages": [{"role": "user", "content": prompt}], **more}


def post(url, body, path="/openai/v1"):
    return requests.post(f"{url}{path}/chat/completions", json=body, timeout=20)


def streamed(url):
    return requests.post(f"{url}/v1/chat/completions", json=body(stream=True), stream=True, timeout=20)


def reply_to(url, **more):
    """The message of the reply to a prompt."""
    reply = post(url, body(**more)).json()
    assert "choices" in reply, reply
    return reply["choices"][0]["message"]


def events(reply):
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def form(schema, name="form"):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
