"""The agents that are killed and started again: ``python durable.py ARM PROMPT`` in a folder of the attempt.

Three steps: read the price, order, read the orders. Each arm keeps what it knows in its working folder, and
the same command continues. It imports nothing of this project.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

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


RESTATE = Path(__file__).parents[2] / ".frameworks" / "mitigations-restate" / "node_modules"


def restate(key: str = "") -> None:
    """A handler of this process, called through its own server, which keeps the journal in this folder.

    The ports are kept, since the server calls an unfinished handler where it was registered.
    """
    [program] = RESTATE.glob("@restatedev/restate-server-*/bin/restate-server")
    ports_file = Path("ports.json")
    if not ports_file.exists():
        ports_file.write_text(json.dumps([free_port() for _ in range(4)]))
    ingress, admin, node, handler = json.loads(ports_file.read_text())
    environ = {
        **os.environ,
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
        "RESTATE_NODE_NAME": "shop",
    }
    with Path("server.log").open("ab") as log:
        command = [str(program), "--no-logo", "--base-dir", "restate-data"]
        server = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        threading.Thread(target=serve_handler, args=(handler, key), daemon=True).start()
        answered("GET", f"http://127.0.0.1:{admin}/health")
        deployment = {"uri": f"http://127.0.0.1:{handler}", "force": True}
        answered("POST", f"http://127.0.0.1:{admin}/deployments", json=deployment)
        task = {"json": "order", "headers": {"idempotency-key": "task"}}
        answered("POST", f"http://127.0.0.1:{ingress}/shop/task", **task)
    finally:
        server.kill()
        server.wait()


def serve_handler(port: int, key: str) -> None:
    """Serve the three steps to Restate's server."""
    import restate as sdk
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    shop = sdk.Service("shop")

    @shop.handler()
    async def task(context: Any, _: str) -> str:
        await context.run_typed("price", price)
        await context.run_typed("order", order, key=key)
        return await context.run_typed("orders", orders)

    config = Config()
    config.bind, config.loglevel = [f"127.0.0.1:{port}"], "ERROR"

    async def forever() -> None:
        await serve(sdk.app([shop]), config, shutdown_trigger=asyncio.Event().wait)

    asyncio.run(forever())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answered(method: str, url: str, **more: object) -> None:
    """Send until the answer is a success; the server needs a second to start."""
    last = ""
    for _ in range(400):
        try:
            reply = httpx.request(method, url, timeout=60, **more)
            if reply.is_success:
                return
            last = reply.text
        except httpx.HTTPError as error:
            last = repr(error)
        time.sleep(0.05)
    raise RuntimeError(f"{url}: {last}")


ARMS: dict[str, Callable[[], None]] = {
    "started again": from_the_start,
    "started again, key kept in a file": lambda: from_the_start(saved_key()),
    **{
        f"LangGraph, durability {name}": lambda name=name: langgraph(name)
        for name in ("exit", "async", "sync")
    },
    "LangGraph, durability sync, key kept in a file": lambda: langgraph("sync", saved_key()),
    "DBOS on SQLite": dbos,
    "Restate": restate,
    "Restate, key kept in a file": lambda: restate(saved_key()),
}

if __name__ == "__main__":
    ARMS[sys.argv[1]]()
    print("I ordered 2 green tea.")
