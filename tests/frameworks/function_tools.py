"""``python function_tools.py FRAMEWORK COUNT``: calls one function tool so often, as its framework does.

Prints a JSON object: ``orders``, what the function itself recorded, and ``answers``, how each call ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

ORDERS: list[str] = []


def place_order(item: str) -> str:
    """Place an order.

    Args:
        item: what to order
    """
    ORDERS.append(item)
    return json.dumps({"order": len(ORDERS), "item": item})


async def place_order_async(item: str) -> str:
    """Place an order."""
    return place_order(item)


def langchain() -> Callable[[str], Any]:
    from langchain_core.tools import tool

    made = tool(place_order)
    return lambda item: made.invoke({"item": item})


def langchain_async() -> Callable[[str], Any]:
    from langchain_core.tools import tool

    made = tool(place_order_async)
    return lambda item: asyncio.run(made.ainvoke({"item": item}))


def langchain_class() -> Callable[[str], Any]:
    from langchain_core.tools import BaseTool

    class PlaceOrder(BaseTool):
        name: str = "place_order"
        description: str = "Place an order."

        def _run(self, item: str) -> str:
            return place_order(item)

    return lambda item: asyncio.run(PlaceOrder().ainvoke({"item": item}))


def openai_agents() -> Callable[[str], Any]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    made = function_tool(place_order, failure_error_function=None)

    def call(item: str) -> Any:
        arguments = json.dumps({"item": item})
        context = ToolContext(
            context=None, tool_name="place_order", tool_call_id="1", tool_arguments=arguments
        )
        return asyncio.run(made.on_invoke_tool(context, arguments))

    return call


def pydantic_ai() -> Callable[[str], Any]:
    return _pydantic_agent(place_order)


def _pydantic_agent(function: Callable[[str], str]) -> Callable[[str], Any]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[Any], _: Any) -> Any:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"done: {last.content}")])
        item = messages[0].parts[-1].content
        return ModelResponse(parts=[ToolCallPart(function.__name__, {"item": item})])

    agent = Agent(FunctionModel(answer), tools=[function])
    return lambda item: agent.run_sync(item).output


def crewai() -> Callable[[str], Any]:
    from crewai.tools import tool

    made = tool("place_order")(place_order)
    return lambda item: made.run(item=item)


def llama_index() -> Callable[[str], Any]:
    from llama_index.core.tools import FunctionTool

    made = FunctionTool.from_defaults(place_order)
    return lambda item: made.call(item=item).content


def llama_index_async() -> Callable[[str], Any]:
    from llama_index.core.tools import FunctionTool

    made = FunctionTool.from_defaults(place_order)
    return lambda item: asyncio.run(made.acall(item=item)).content


def autogen() -> Callable[[str], Any]:
    from autogen_core import CancellationToken
    from autogen_core.tools import FunctionTool

    made = FunctionTool(place_order, description="Place an order.")
    return lambda item: asyncio.run(made.run_json({"item": item}, CancellationToken()))


def smolagents() -> Callable[[str], Any]:
    from smolagents import tool

    made = tool(place_order)
    return lambda item: made(item=item)


def strands() -> Callable[[str], Any]:
    from strands import tool

    made = tool(place_order)

    async def use(item: str) -> Any:
        tool_use = {"toolUseId": "1", "name": "place_order", "input": {"item": item}}
        return [event async for event in made.stream(tool_use, {})][-1].as_dict()["tool_result"]["status"]

    return lambda item: asyncio.run(use(item))


def pydantic_ai_retry() -> Callable[[str], Any]:
    """The tool asks the model to try again, by an exception that is no failure."""
    from pydantic_ai import ModelRetry

    def picky(item: str) -> str:
        if not ORDERS:
            ORDERS.append("refused")
            raise ModelRetry("name the item again")
        return place_order(item)

    return _pydantic_agent(picky)


def langgraph_interrupt() -> Callable[[str], Any]:
    """The tool stops its graph until a person approves."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.types import Command, interrupt

    @tool
    def approved_order(item: str) -> str:
        """Place an order that a person approves."""
        return f"{interrupt('approve?')}: {place_order(item)}"

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([approved_order]))
    graph.add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())

    def call(item: str) -> Any:
        config: Any = {"configurable": {"thread_id": item}}
        calls = [{"name": "approved_order", "args": {"item": item}, "id": "1"}]
        first = compiled.invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
        second = compiled.invoke(Command(resume="yes"), config)
        return [first["__interrupt__"][0].value, second["messages"][-1].content]

    return call


def main(framework: str, count: int) -> None:
    call = globals()[framework]()
    answers = []
    for number in range(count):
        try:
            answers.append(str(call(f"item {number}"))[:200])
        except Exception as error:  # noqa: BLE001 - the test reads which
            answers.append(f"{type(error).__name__}: {error}"[:200])
    print(json.dumps({"orders": ORDERS, "answers": answers}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
