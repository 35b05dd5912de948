"""The agents that are killed and started again: ``python durable.py ARM PROMPT`` in a folder of the attempt.

Three steps: read the price, order, read the orders. Each arm keeps what it knows in its working folder, and
the same command continues. It imports nothing of this project.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import httpx

TIMEOUT_S = 4.0
SHOP = os.environ["SHOP_URL"]


def price() -> str:
    return httpx.get(f"{SHOP}/price", params={"item": "green tea"}, timeout=TIMEOUT_S).raise_for_status().text


def order(key: str = "") -> str:
    """Send again once if the connection breaks, as a careful program does."""
    headers = {"Idempotency-Key": key} if key else {}
    body = {"item": "green tea", "count": 2}
    return httpx.post(f"{SHOP}/orders", json=body, headers=headers, timeout=TIMEOUT_S).raise_for_status().text


def orders() -> str:
    return httpx.get(f"{SHOP}/orders", timeout=TIMEOUT_S).raise_for_status().text


def saved_key() -> str:
    """The key of this task, kept before the first request that uses it."""
    file = Path("key")
    if not file.exists():
        file.write_text(uuid.uuid4().hex)
    return file.read_text()


def from_the_start(key: str = "") -> None:
    price()
    order(key)
    orders()


def langgraph(durability: str, key: str = "") -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict, total=False):
        price: str
        order: str
        orders: str

    graph = StateGraph(State)
    graph.add_node("read_price", lambda _: {"price": price()})
    graph.add_node("place_order", lambda _: {"order": order(key)})
    graph.add_node("read_orders", lambda _: {"orders": orders()})
    for before, after in (
        (START, "read_price"),
        ("read_price", "place_order"),
        ("place_order", "read_orders"),
        ("read_orders", END),
    ):
        graph.add_edge(before, after)
    config = {"configurable": {"thread_id": "task"}}
    with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        app = graph.compile(checkpointer=saver)
        begun = saver.get_tuple(config) is not None
        app.invoke(None if begun else {}, config, durability=durability)


def dbos() -> None:
    from dbos import DBOS, SetWorkflowID

    DBOS(config={"name": "shop", "system_database_url": "sqlite:///dbos.db", "log_level": "ERROR"})

    @DBOS.step()
    def read_price() -> str:
        return price()

    @DBOS.step()
    def place_order() -> str:
        return order()

    @DBOS.step()
    def read_orders() -> str:
        return orders()

    @DBOS.workflow()
    def task() -> str:
        read_price()
        place_order()
        return read_orders()

    DBOS.launch()  # continues what a killed process left
    with SetWorkflowID("task"):
        DBOS.start_workflow(task).get_result()
    DBOS.destroy()


ARMS: dict[str, Callable[[], None]] = {
    "started again": from_the_start,
    "started again, key kept in a file": lambda: from_the_start(saved_key()),
    **{
        f"LangGraph, durability {name}": lambda name=name: langgraph(name)
        for name in ("exit", "async", "sync")
    },
    "LangGraph, durability sync, key kept in a file": lambda: langgraph("sync", saved_key()),
    "DBOS on SQLite": dbos,
}

if __name__ == "__main__":
    ARMS[sys.argv[1]]()
    print("I ordered 2 green tea.")
