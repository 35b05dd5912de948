"""A LangGraph whose nodes have a RetryPolicy. Arguments: the model's address, the shop's."""

import json
import operator
import sys
from typing import Annotated, TypedDict

import httpx
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

MODEL, SHOP = sys.argv[1:]
RETRY = RetryPolicy(max_attempts=3, initial_interval=0.1, jitter=False)


class State(TypedDict):
    messages: Annotated[list, operator.add]


def model(state: State) -> State:
    body = {"model": "m", "messages": state["messages"]}
    reply = httpx.post(f"{MODEL}/chat/completions", json=body, timeout=5).raise_for_status().json()
    return {"messages": [reply["choices"][0]["message"]]}


def tools(state: State) -> State:
    results = []
    for call in state["messages"][-1]["tool_calls"]:
        if call["function"]["name"] == "get_price":
            reply = httpx.get(f"{SHOP}/price", timeout=5)
        else:
            reply = httpx.post(f"{SHOP}/orders", json=json.loads(call["function"]["arguments"]), timeout=5)
        text = json.dumps(reply.raise_for_status().json())
        results.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return {"messages": results}


graph = StateGraph(State)
graph.add_node("model", model, retry_policy=RETRY)
graph.add_node("tools", tools, retry_policy=RETRY)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].get("tool_calls") else END)
graph.add_edge("tools", "model")
end = graph.compile().invoke({"messages": [{"role": "user", "content": "Order two mugs"}]})
print(end["messages"][-1]["content"] or "")
