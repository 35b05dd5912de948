"""A model and a shop for audited agents, with the shop's own record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, request

from tests.examples.serving import served

# Calls two tools in turn, then answers with the last tool's result.
STEPS = ("get_price", "place_order")


@dataclass
class Servers:
    """The addresses, and the orders that the shop carried out."""

    model: str = ""
    shop: str = ""
    fallback: str = ""
    """Another model's address."""
    orders: list[str] = field(default_factory=list)


@contextmanager
def model_and_shop() -> Iterator[Servers]:
    servers = Servers()
    with served(_model()) as model, served(_model()) as fallback, served(_shop(servers)) as shop:
        servers.model, servers.fallback, servers.shop = f"{model.url}/v1", f"{fallback.url}/v1", shop.url
        yield servers


def _model() -> Flask:
    app = Flask("model")
    answers = itertools.count()

    @app.post("/v1/chat/completions")
    def complete() -> dict[str, Any] | Response:
        results = [message for message in request.get_json()["messages"] if message["role"] == "tool"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if len(results) < len(STEPS):
            function = {"name": STEPS[len(results)], "arguments": json.dumps({"item": "mug", "count": 2})}
            message["content"] = f"Thought {next(answers)}"  # never the same twice, as of a real model
            message["tool_calls"] = [{"id": f"call_{len(results)}", "type": "function", "function": function}]
        elif "error" in results[-1]["content"]:
            message["content"] = "Sorry, the order failed."
        else:
            message["content"] = f"Your order is placed: {results[-1]['content']}"
        reason = "tool_calls" if "tool_calls" in message else "stop"
        if request.get_json().get("stream"):
            return Response(_events(message, reason), content_type="text/event-stream")
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }

    return app


def _events(message: dict[str, Any], reason: str) -> Iterator[str]:
    """The answer as an event stream: a word an event, then the calls, then the end."""
    calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls", ()))]
    deltas: list[dict[str, Any]] = [{"content": f"{word} "} for word in message["content"].split(" ")]
    deltas += [{"tool_calls": calls}] if calls else []
    for delta, ended in [*((delta, None) for delta in deltas), ({}, reason)]:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _shop(servers: Servers) -> Flask:
    app = Flask("shop")
    known: dict[str, int] = {}

    @app.get("/price")
    def price() -> dict[str, Any]:
        return {"item": "mug", "price": 4.5}

    @app.post("/orders")
    def order() -> tuple[dict[str, Any], int]:
        key = request.headers.get("Idempotency-Key", "")
        if key not in known or not key:
            servers.orders.append(key)
            known[key] = len(servers.orders)
        return {"id": known[key]}, 201

    return app


# Arguments: the model's address, the shop's, and what it does about failures.
AGENT = """
import json, sys, time, urllib.error, urllib.request, uuid

MODEL, SHOP, STYLE = sys.argv[1:]
TOOL = {"type": "function", "function": {"name": "get_price", "parameters": {"type": "object"}}}

def send(url, body=None, key=""):
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    for left in range(9 if STYLE == "boasting" else 2, -1, -1):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=3) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After")
            if not left or (error.code < 500 and not wait):
                raise
            time.sleep(float(wait or (0 if STYLE == "boasting" else 0.1)))
        except (OSError, ValueError):
            if not left:
                raise

def use(call):
    if call["function"]["name"] == "get_price":
        return send(SHOP + "/price")
    if STYLE == "careful" and call["function"]["name"] != "place_order":
        return {"error": "unknown tool"}
    arguments = json.loads(call["function"]["arguments"])
    return send(SHOP + "/orders", arguments, uuid.uuid4().hex if STYLE == "careful" else "")

def answer():
    messages, ordered = [{"role": "user", "content": "Order two mugs"}], None
    while True:
        try:
            body = {"model": "m", "messages": messages, "tools": [TOOL]}
            message = send(MODEL + "/chat/completions", body)["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            if not calls and not message["content"]:
                raise ValueError("the model said nothing")
            if not calls:
                return message["content"]
            results = [use(call) for call in calls]
        except Exception as error:
            if STYLE == "boasting":
                return 'Your order is placed: {"id": 1}'
            if STYLE in ("alerting", "refunding"):
                place = SHOP + "/refunds" if STYLE == "refunding" else "http://pager.example/alerts"
                send(place, {"error": repr(error)})
            if STYLE != "careful":
                raise
            if ordered:
                return f"Your order is placed: {json.dumps(ordered)}"
            sys.exit(f"Sorry, I could not order: {error!r}")
        ordered = results[-1] if calls[-1]["function"]["name"] == "place_order" else ordered
        messages.append(message)
        for call, result in zip(calls, results):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})

print(answer())
"""
