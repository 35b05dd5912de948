"""Each fault of WebSocket messages as seen by real clients of a realtime API."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.faults.catalogue.clients.seen import SEEN, row_of
from tests.gateway.test_websocket import WHOLE, fault_record, realtime_lab
from tests.support import PATIENCE_S

# the client's own patience, where the fault is that nothing comes
SILENCE_S = 1.0

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("ws_cut", {"nth": 3}),
    ("ws_cut", {"nth": 3, "at": "inside"}),
    ("ws_cut", {"nth": 3, "ending": "reset"}),
    ("ws_cut", {"nth": 3, "code": 1011}),
    ("ws_cut", {"sender": "client", "at": "before"}),
    ("ws_delay", {"nth": 2, "seconds": 0.2}),
    ("ws_drop", {"nth": 3}),
    ("ws_drop", {"type": "response.done"}),
    ("ws_drop", {"sender": "client"}),
    ("ws_error", {"nth": 5}),
    ("ws_error", {"nth": 5, "place": "instead"}),
    ("ws_error", {"nth": 5, "error": "session_expired", "closes": True}),
    ("ws_error", {"sender": "client", "place": "instead", "error": "invalid_event"}),
]


def of_websockets(url: str) -> list[str]:
    """The types of the events that a conversation brought, and how it ended."""
    events: list[str] = []
    with connect(url) as connection:
        events.append(json.loads(connection.recv(timeout=PATIENCE_S))["type"])
        connection.send(json.dumps({"type": "response.create"}))
        try:
            while events[-1:] != ["response.done"]:
                events.append(json.loads(connection.recv(timeout=SILENCE_S))["type"])
            while True:
                events.append(json.loads(connection.recv(timeout=SILENCE_S))["type"])
        except TimeoutError:
            return [*events, "silence"]
        except ConnectionClosed:
            return [*events, f"close {connection.protocol.close_code}"]


_NODE = """
const events = [], socket = new WebSocket(process.argv[1])
const end = how => { console.log(JSON.stringify([...events, how])); process.exit(0) }
let timer
const wait = () => { clearTimeout(timer); timer = setTimeout(() => end("silence"), SILENCE) }
socket.onmessage = message => {
  events.push(JSON.parse(message.data).type)
  if (events.length === 1) socket.send(JSON.stringify({type: "response.create"}))
  wait()
}
socket.onclose = close => end(`close ${close.code}`)
""".replace("SILENCE", str(int(SILENCE_S * 1000)))
_FLAG = "--experimental-websocket"  # needed by Node 20


def of_node(url: str) -> list[str]:
    done = subprocess.run(
        ["node", _FLAG, "-e", _NODE, url], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return json.loads(done.stdout)


def has_node() -> bool:
    command = ["node", _FLAG, "-e", "WebSocket"]
    return bool(shutil.which("node")) and not subprocess.run(command, capture_output=True).returncode


CLIENTS: dict[str, Callable[[str], list[str]]] = {"websockets": of_websockets, "Node's WebSocket": of_node}


def in_words(events: list[str], good: list[str]) -> str:
    """The difference to a conversation without a fault, in a few words."""
    *events, end = events
    errors = events.count("error")
    rest = [event for event in events if event != "error"]
    lost = len(good) - len(rest)
    parts = [f"{lost} of {len(good)} events missing"] if lost else []
    parts += ["an error event"] if errors else []
    parts += [] if end == "silence" else [end]
    return ", ".join(parts) or "good answer"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(("fault", "parameters"), ROWS, ids=lambda value: str(value))
def test_realtime_client_view(tmp_path: Path, name: str, fault: str, parameters: dict[str, Any]) -> None:
    if name != "websockets" and not has_node():
        pytest.skip("node without WebSocket")
    with realtime_lab(tmp_path, {"fault": fault, "with": parameters}) as lab:
        url = lab.topology.gateways["voice"].url.replace("http", "ws") + "/v1/realtime"
        events = CLIENTS[name](url)
        assert fault_record(lab).injected
    SEEN.note(row_of(fault, parameters), name, in_words(events, WHOLE))
