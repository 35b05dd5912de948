"""The agents of the tournament, each one function; served to the lab as ``python clients.py ARM PORT``.

It runs in the environment of the frameworks, and imports nothing of this project. OPENAI_BASE_URL,
ANTHROPIC_BASE_URL and SHOP_URL lead through the lab. Each client has the same timeout: the defaults of the
SDKs, ten minutes, would only measure patience. An exception of an agent is its end: the server answers 500.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

TIMEOUT_S = 4.0
HEDGE_AFTER_S = 1.0
TASK = "Order an item of the shop, exactly once for each order that the user asks for."
PARAMETERS = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item", "count"],
}
Order = Callable[[str, int, int], str]
"""Item, count and the number of the step: what the shop answered."""


def shop(path: str) -> str:
    return os.environ["SHOP_URL"] + path


def order_once(item: str, count: int, step: int = 0, key: str = "") -> str:
    """Send the order once."""
    headers = {"Idempotency-Key": key} if key else {}
    body = {"item": item, "count": int(count)}  # the scripted model sends texts
    return httpx.post(shop("/orders"), json=body, headers=headers, timeout=TIMEOUT_S).raise_for_status().text


def openai_agent(order: Order = order_once, **options: object) -> Callable[[str], str]:
    """The SDK alone: a loop around streamed chat completions."""
    from openai import OpenAI

    client = OpenAI(timeout=TIMEOUT_S, **options)
    tool = {
        "type": "function",
        "function": {"name": "order_item", "description": TASK, "parameters": PARAMETERS},
    }

    def ask(prompt: str) -> str:
        messages: list[dict] = [{"role": "user", "content": prompt}]
        for step in range(8):
            text, calls = "", {}
            stream = client.chat.completions.create(
                model="gpt-5-mini", messages=messages, tools=[tool], stream=True
            )
            for chunk in stream:
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for part in choice.delta.tool_calls or ():
                        call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                        call["id"] = call["id"] or part.id or ""
                        call["name"] += part.function.name or ""
                        call["arguments"] += part.function.arguments or ""
            if not calls:
                return text
            tool_calls = [
                {
                    "id": c["id"],
                    "type": "function",
                    "function": {"name": c["name"], "arguments": c["arguments"]},
                }
                for c in calls.values()
            ]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": tool_calls})
            for call in calls.values():
                result = tool_result(order, json.loads(call["arguments"]), step)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        raise RuntimeError("too many steps")

    return ask


def tool_result(order: Order, arguments: dict, step: int) -> str:
    """The result of the tool for the model: an error is a text, as frameworks do it."""
    try:
        return order(arguments["item"], arguments["count"], step)
    except Exception as error:  # whatever a mitigation ends with is the tool's error
        return json.dumps({"error": f"{type(error).__name__}: {error}"})


def anthropic_agent(**options: object) -> Callable[[str], str]:
    """Anthropic's SDK alone, streamed."""
    from anthropic import Anthropic

    client = Anthropic(api_key="none-needed", timeout=TIMEOUT_S, **options)
    tool = {"name": "order_item", "description": TASK, "input_schema": PARAMETERS}

    def ask(prompt: str) -> str:
        messages: list[dict] = [{"role": "user", "content": prompt}]
        for step in range(8):
            with client.messages.stream(
                model="claude-sonnet-4-5", max_tokens=1000, messages=messages, tools=[tool]
            ) as stream:
                reply = stream.get_final_message()
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return "".join(block.text for block in reply.content if block.type == "text")
            messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": use.id,
                    "content": tool_result(order_once, use.input, step),
                }
                for use in uses
            ]
            messages.append({"role": "user", "content": results})
        raise RuntimeError("too many steps")

    return ask


def langchain_agent(*names: str) -> Callable[[str], str]:
    """LangChain's agent with that middleware. The client's retries are off, so that only it retries."""
    from langchain.agents import create_agent
    from langchain.agents import middleware as m
    from langchain_openai import ChatOpenAI
    from openai import APIConnectionError, InternalServerError, RateLimitError

    def order_item(item: str, count: int) -> str:
        """Order an item of the shop."""
        return order_once(item, count)

    def get_price(item: str) -> str:
        """Get the price of an item in the shop."""
        return httpx.get(shop("/price"), params={"item": item}, timeout=TIMEOUT_S).raise_for_status().text

    def model(name: str, **more: object) -> ChatOpenAI:
        return ChatOpenAI(model=name, timeout=TIMEOUT_S, streaming=True, **({"max_retries": 0} | more))

    temporary = (APIConnectionError, InternalServerError, RateLimitError)
    made = {
        "ToolRetry": lambda: m.ToolRetryMiddleware(),
        "ToolRetry, reads only": lambda: m.ToolRetryMiddleware(tools=["get_price"]),
        "ModelRetry": lambda: m.ModelRetryMiddleware(),
        "ModelRetry, temporary errors, 5": lambda: m.ModelRetryMiddleware(max_retries=5, retry_on=temporary),
        "ModelFallback": lambda: m.ModelFallbackMiddleware(model("gpt-5-nano")),
        "ToolError": lambda: m.ToolErrorMiddleware(
            lambda *_: "the tool failed; it may have been carried out"
        ),
        "ToolCallLimit, 1 a run": lambda: m.ToolCallLimitMiddleware(run_limit=1),
    }
    first = (
        model("gpt-5-mini") if names else ChatOpenAI(model="gpt-5-mini", timeout=TIMEOUT_S, streaming=True)
    )
    agent = create_agent(first, tools=[get_price, order_item], middleware=[made[name]() for name in names])

    def ask(prompt: str) -> str:
        state = agent.invoke({"messages": [{"role": "user", "content": prompt}]})
        return state["messages"][-1].text

    return ask


def pydantic_ai_agent() -> Callable[[str], str]:
    from pydantic_ai import Agent

    agent = Agent("openai-chat:gpt-5-mini", model_settings={"timeout": TIMEOUT_S})

    @agent.tool_plain
    def order_item(item: str, count: int) -> str:
        """Order an item of the shop."""
        return order_once(item, count)

    return lambda prompt: agent.run_sync(prompt).output


def agents_sdk_agent() -> Callable[[str], str]:
    from agents import (
        Agent,
        Runner,
        function_tool,
        set_default_openai_api,
        set_default_openai_client,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(timeout=TIMEOUT_S))
    set_default_openai_api("chat_completions")

    @function_tool
    def order_item(item: str, count: int) -> str:
        """Order an item of the shop."""
        return order_once(item, count)

    agent = Agent(name="shop", model="gpt-5-mini", tools=[order_item])
    return lambda prompt: Runner.run_sync(agent, prompt).final_output


def litellm_agent(*names: str) -> Callable[[str], str]:
    """LiteLLM's router; the second deployment is another name at the same address."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks its repository at each start
    import litellm
    from litellm import Router

    litellm.suppress_debug_info = True
    options: dict = {"num_retries": 0, "disable_cooldowns": True}
    for name in names:
        options |= {
            "retries": {"num_retries": 3},
            "fallbacks": {"fallbacks": [{"main": ["spare"]}]},
            "cooldown": {"disable_cooldowns": False, "allowed_fails": 1, "cooldown_time": 5},
        }[name]

    def deployment(group: str, model: str) -> dict:
        return {
            "model_name": group,
            "litellm_params": {
                "model": f"openai/{model}",
                "api_base": os.environ["OPENAI_BASE_URL"],
                "api_key": "none-needed",
                "timeout": TIMEOUT_S,
                "max_retries": 0,
            },
        }

    router = Router([deployment("main", "gpt-5-mini"), deployment("spare", "gpt-5-nano")], **options)
    tool = {
        "type": "function",
        "function": {"name": "order_item", "description": TASK, "parameters": PARAMETERS},
    }

    def ask(prompt: str) -> str:
        messages: list = [{"role": "user", "content": prompt}]
        for step in range(8):
            reply = router.completion(model="main", messages=messages, tools=[tool]).choices[0].message
            if not reply.tool_calls:
                return reply.content or ""
            messages.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls:
                result = tool_result(order_once, json.loads(call.function.arguments), step)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        raise RuntimeError("too many steps")

    return ask


# mitigations of the tool, around one request; the model's client has its defaults


def retried(order: Order, *, jitter: bool = True) -> Order:
    """Five tries by tenacity with full jitter."""
    from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

    return retry(
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.5, max=8),
        retry=retry_if_exception_type(httpx.HTTPError),
        reraise=True,
    )(order)


def guarded(order: Order) -> Order:
    """A breaker of pybreaker, shared by all episodes, around five tries: it opens at three failures."""
    import pybreaker

    return retried(pybreaker.CircuitBreaker(fail_max=3, reset_timeout=5)(order))


def hedged(order: Order) -> Order:
    """Send a second request if the first failed, or is slow; take the first reply."""
    pool = ThreadPoolExecutor(8)

    def twice(item: str, count: int, step: int) -> str:
        first = pool.submit(order, item, count, step)
        wait([first], timeout=HEDGE_AFTER_S)
        if first.done() and first.exception() is None:
            return first.result()
        both = {first, pool.submit(order, item, count, step)}
        while both:
            done, both = wait(both, return_when=FIRST_COMPLETED)
            for each in done:
                if each.exception() is None:
                    return each.result()
        return first.result()

    return twice


def keyed(by: str) -> Order:
    """An idempotency key by the run's step, or by the arguments alone."""

    def order(item: str, count: int, step: int) -> str:
        key = f"{EPISODE.number}-{step}" if by == "step" else f"{EPISODE.number}-{item}-{count}"
        return order_once(item, count, step, key)

    return order


def verified(order: Order) -> Order:
    """After each try read the orders, and send again only if the new one is missing."""

    def checked(item: str, count: int, step: int) -> str:
        before = len(orders())
        for _ in range(5):
            with suppress(httpx.HTTPError):
                order(item, count, step)
            try:
                if len(now := orders()) > before:
                    return json.dumps(now[-1])
            except httpx.HTTPError:
                continue
        raise RuntimeError("the order is not in the list of orders after 5 tries")

    return checked


def orders() -> list:
    return httpx.get(shop("/orders"), timeout=TIMEOUT_S).raise_for_status().json()


def by_mcp(*, tries: int = 1, new_sessions: bool = False, with_key: bool = False) -> Order:
    """Order by the tool of the MCP server; each order opens a session.

    Tries are in the same session, or each in a new one.
    """
    import asyncio
    import uuid

    from mcp import Client

    async def call_in_session(arguments: dict, calls: int) -> str:
        client = Client(os.environ["TOOLS_URL"] + "/mcp", mode="legacy", read_timeout_seconds=TIMEOUT_S)
        async with client:
            for number in range(1, calls + 1):
                try:
                    result = await client.call_tool("order_item", arguments)
                except Exception:  # an error of any layer of the SDK is tried again
                    if number == calls:
                        raise
                    continue
                text = "\n".join(part.text for part in result.content if part.type == "text")
                if result.is_error:
                    raise RuntimeError(text)
                return text
        raise RuntimeError("the session ended")

    async def call(arguments: dict) -> str:
        sessions, calls = (tries, 1) if new_sessions else (1, tries)
        for _ in range(1, sessions):
            with suppress(Exception):  # so does a session that ends with a group of errors
                return await call_in_session(arguments, calls)
        return await call_in_session(arguments, calls)

    def order(item: str, count: int, step: int) -> str:
        key = {"key": uuid.uuid4().hex} if with_key else {}
        return asyncio.run(call({"item": item, "count": int(count), **key}))

    return order


class Episode(threading.local):
    """The number of the prompt in progress."""

    number = 0


EPISODE = Episode()

ARMS: dict[str, Callable[[], Callable[[str], str]]] = {
    **{f"openai, max_retries {n}": lambda n=n: openai_agent(max_retries=n) for n in (0, 2, 5)},
    **{f"anthropic, max_retries {n}": lambda n=n: anthropic_agent(max_retries=n) for n in (0, 2, 5)},
    "LangChain, defaults": langchain_agent,
    **{
        f"LangChain, {name}": lambda name=name: langchain_agent(name)
        for name in (
            "ToolRetry",
            "ToolRetry, reads only",
            "ModelRetry",
            "ModelRetry, temporary errors, 5",
            "ModelFallback",
            "ToolError",
            "ToolCallLimit, 1 a run",
        )
    },
    "pydantic-ai, defaults": pydantic_ai_agent,
    "Agents SDK, defaults": agents_sdk_agent,
    "Router, nothing": litellm_agent,
    **{
        f"Router, {' and '.join(names)}": lambda names=names: litellm_agent(*names)
        for names in (("retries",), ("fallbacks",), ("cooldown",), ("retries", "fallbacks", "cooldown"))
    },
    "no retry": openai_agent,
    "tenacity, jitter": lambda: openai_agent(retried(order_once)),
    "tenacity in a breaker": lambda: openai_agent(guarded(order_once)),
    "hedged write": lambda: openai_agent(hedged(order_once)),
    "no keys": lambda: openai_agent(retried(order_once)),
    "keys by step": lambda: openai_agent(retried(keyed("step"))),
    "keys by arguments": lambda: openai_agent(retried(keyed("arguments"))),
    "MCP, called once": lambda: openai_agent(by_mcp()),
    "MCP, called again": lambda: openai_agent(by_mcp(tries=4)),
    "MCP, called again in a new session": lambda: openai_agent(by_mcp(tries=4, new_sessions=True)),
    "MCP, called again in a new session, with a key": lambda: openai_agent(
        by_mcp(tries=4, new_sessions=True, with_key=True)
    ),
    "verify after write": lambda: openai_agent(verified(order_once)),
}


def serve_tools(port: int) -> None:
    """Serve the tool by MCP; it orders in the shop."""
    from mcp.server import MCPServer

    server = MCPServer("shop")

    @server.tool()
    def order_item(item: str, count: int, key: str = "") -> str:
        """Order an item of the shop."""
        return order_once(item, count, key=key)

    server.run("streamable-http", port=port)


def main() -> None:
    if sys.argv[1] == "tools":
        serve_tools(int(sys.argv[2]))
        return
    ask, port = ARMS[sys.argv[1]](), int(sys.argv[2])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
            EPISODE.number += 1
            # libraries draw their jitter from the global generator: it repeats with the episode's name
            random.seed(re.search(r"wirefault\.episode=([^,]+)", self.headers.get("baggage", ""))[1])
            try:
                status, answer = 200, {"answer": ask(prompt)}
            except Exception as error:  # the agent's end, whatever it is
                status, answer = 500, {"error": f"{type(error).__name__}: {error}"[:300]}
            body = json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the lab's bound on an attempt
                pass

        def log_message(self, *_: object) -> None:
            pass

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
