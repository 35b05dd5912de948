"""Answers one prompt with a graph of LangGraph's own nodes and two tools of the shop."""

import sys

import httpx
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

SHOP = "http://127.0.0.1:9000"


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    return httpx.get(f"{SHOP}/price", params={"item": item}).raise_for_status().text


def order_item(item: str, count: int) -> str:
    """Order an item of the shop."""
    return httpx.post(f"{SHOP}/orders", json={"item": item, "count": count}).raise_for_status().text


TOOLS = [get_price, order_item]
model = ChatOpenAI(model="gpt-5-mini").bind_tools(TOOLS)


def ask(state: MessagesState):
    return {"messages": [model.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("model", ask)
graph.add_node("tools", ToolNode(TOOLS))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
state = graph.compile().invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})
print(state["messages"][-1].text)
