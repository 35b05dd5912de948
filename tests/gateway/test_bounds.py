"""The numbers of faults at their bounds, over real sockets: bytes, copies, statuses, messages and waits.

The gateway's loop notes each wait of a reply and ends it at once. ``tests/faults/test_bounds.py`` shows that
values beyond the bounds are refused.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, request

from tests.gateway.lab import Lab, ask, gateway
from tests.gateway.test_websocket import client, websocket_server
from tests.support import PATIENCE_S, until
from tests.upstream import serving
from wirefault.state.state import State
from wirefault.state.tables import KillOrder
from wirefault.wiring.links import Link, Links

SIZE = 1000
BODY = json.dumps({"text": "x" * (SIZE - 12)}).encode()
EVENT = b'data: {"text": "word"}\n\n'


class NotingLoop(asyncio.SelectorEventLoop):
    """Notes the seconds of each wait of a reply, and ends it at once; other timers take their time."""

    def __init__(self, waits: list[float]) -> None:
        super().__init__()
        self._waits = waits

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore
        if getattr(callback, "__qualname__", "").endswith(("._on_waited", "FaultDelay.expire")):
            self._waits.append(delay)
            delay = 0
        return super().call_later(delay, callback, *args, context=context)


class Wire:
    """A gateway, and what its upstream received."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.received: list[bytes] = []
        self.lab: Lab

    def run(self, serve: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=lambda: NotingLoop(self.waits)) as runner:
            runner.run(serve)

    def reply(self, link: str, body: bytes = b"", path: str = "/") -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the bytes of the body that the gateway sends."""
        method = "POST" if body else "GET"
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        head_bytes, _, content = ask(self.lab.address(link), head.encode() + body).partition(b"\r\n\r\n")
        status, *fields = head_bytes.decode().split("\r\n")
        return int(status.split()[1]), dict(field.lower().split(": ", 1) for field in fields), content


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    wire, app = Wire(), Flask("upstream")

    @app.get("/events")
    def stream() -> Response:
        return Response(EVENT * 10_001, mimetype="text/event-stream")

    @app.route("/", defaults={"path": ""}, methods=["GET", "POST"])
    @app.route("/<path:path>", methods=["GET", "POST"])
    def answer(path: str) -> Response:
        wire.received.append(request.get_data())
        return Response(BODY, mimetype="application/json")

    folder = tmp_path_factory.mktemp("gateway")
    with serving(app) as address, gateway(folder, run=wire.run, search=address, model=address) as wire.lab:
        yield wire


def set_fault(wire: Wire, fault: str, parameters: dict[str, Any], links: str = "search") -> None:
    wire.lab.settle(0)
    wire.lab.begin(faults={"faults": [{"fault": fault, "with": parameters, "links": links}]})
    wire.waits.clear()
    wire.received.clear()


@pytest.mark.parametrize(
    ("fault", "parameters", "seconds"),
    [
        *(("delay", {"ms": ms}, ms / 1000) for ms in (0, 0.001, 599_999.999, 600_000)),
        ("delay", {"kind": "spike", "spike_ms": 600_000, "spike_chance": 1}, 600),
        ("delay", {"kind": "degrading", "ms": 600_000, "step_ms": 600_000}, 600),
        *(("slow_body", {"bytes_per_second": rate}, SIZE / rate) for rate in (1e-9, 1, 999_999_999, 1e9)),
    ],
)
def test_reply_waits_as_long_as_the_bound_says(
    wire: Wire, fault: str, parameters: dict[str, Any], seconds: float
) -> None:
    set_fault(wire, fault, parameters)
    assert wire.reply("search")[::2] == (200, BODY)
    assert math.fsum(wire.waits) == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "size"),
    [
        *(({"at_byte": at}, at) for at in (0, 1, SIZE - 1)),
        ({"fraction": 0}, 0),
        ({"fraction": 0.999}, 999),
        ({"fraction": 1 - 1e-9}, 999),
    ],
)
def test_cut_reply_has_its_bytes_on_the_wire(wire: Wire, parameters: dict[str, Any], size: int) -> None:
    set_fault(wire, "truncate", parameters)
    status, headers, content = wire.reply("search")
    assert (status, headers["content-length"], content) == (200, str(SIZE), BODY[:size])


@pytest.mark.parametrize("at_byte", [SIZE, SIZE + 1])
def test_cut_beyond_the_reply_changes_nothing(wire: Wire, at_byte: int) -> None:
    set_fault(wire, "truncate", {"at_byte": at_byte})
    assert wire.reply("search")[::2] == (200, BODY)
    [fault] = wire.lab.exchange().faults
    assert not fault.injected


@pytest.mark.parametrize(
    ("fault", "parameters", "status", "retry_after"),
    [
        *(("status", {"status": status}, status, None) for status in (200, 201, 598, 599)),
        *(("rate_limit", {"retry_after": after}, 429, after) for after in (0, 1, 3599, 3600)),
    ],
)
def test_status_and_header_are_sent_as_given(
    wire: Wire, fault: str, parameters: dict[str, Any], status: int, retry_after: int | None
) -> None:
    set_fault(wire, fault, parameters)
    answered, headers, _ = wire.reply("search")
    assert answered == status
    assert headers.get("retry-after") == (None if retry_after is None else str(retry_after))


@pytest.mark.parametrize("n", [2, 3, 9, 10])
def test_request_is_delivered_n_times(wire: Wire, n: int) -> None:
    set_fault(wire, "duplicate_request", {"n": n})
    assert wire.reply("search")[0] == 200
    assert len(wire.received) == n


@pytest.mark.parametrize(("fails", "passes"), [(1, 1), (2, 3), (10_000, 10_000)])
def test_calls_alternate_by_their_counts(wire: Wire, fails: int, passes: int) -> None:
    set_fault(wire, "flap", {"fails": fails, "passes": passes})
    statuses = [wire.reply("search", path=f"/{at}")[0] for at in range(12)]
    assert statuses == [503 if at % (fails + passes) < fails else 200 for at in range(12)]


def chat(*contents: str) -> bytes:
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(contents)]
    return json.dumps({"model": "m", "messages": messages}).encode()


@pytest.mark.parametrize(
    ("fault", "parameters", "lengths"),
    [
        *(("overflow", {"characters": n}, (n + 3, 2, 2, 2, 2)) for n in (1, 2, 7_999_999, 8_000_000)),
        *(("truncate_history", {"keep_last": n}, (2,) * n) for n in (1, 4)),
        ("truncate_history", {"keep_last": 5}, (2,) * 5),
        ("truncate_history", {"keep_last": 6}, (2,) * 5),
        ("truncate_history", {"fraction": 0}, (2,)),
        ("truncate_history", {"fraction": 0.999}, (2,) * 4),
    ],
)
def test_model_receives_the_changed_conversation(
    wire: Wire, fault: str, parameters: dict[str, Any], lengths: tuple[int, ...]
) -> None:
    set_fault(wire, fault, parameters, "model")
    wire.reply("model", chat("ab", "cd", "ef", "gh", "ij"), "/v1/chat/completions")
    messages = json.loads(wire.received[-1])["messages"]
    assert tuple(len(message["content"]) for message in messages) == lengths


@pytest.mark.parametrize("rate", [5e-324, 1e-9, 0.5, 1 - 1e-9, 1])
def test_model_receives_that_share_of_letters_changed(wire: Wire, rate: float) -> None:
    """A changed letter is dropped, doubled or, where the next one is equal, replaced: one in two."""
    set_fault(wire, "noise", {"rate": rate}, "model")
    wire.reply("model", chat("a" * SIZE), "/v1/chat/completions")
    [message] = json.loads(wire.received[-1])["messages"]
    text = message["content"]
    assert set(text) <= {"a", "x"} and text != "a" * SIZE
    if rate < 0.5:  # at least one is changed
        assert abs(len(text) - SIZE) + text.count("x") == 1
    else:
        assert text.count("x") == pytest.approx(rate * SIZE / 2, abs=50)


def called(count: int) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How warm is it?"}]
    for at in range(count):
        function = {"name": "warm", "arguments": "{}"}
        call = {"id": f"c{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": str(at)})
    return json.dumps({"model": "m", "messages": messages}).encode()


@pytest.mark.parametrize(("turns", "left"), [(1, 3), (3, 1), (4, 0), (5, 0), (10**9, 0)])
def test_model_receives_a_conversation_without_the_last_calls(wire: Wire, turns: int, left: int) -> None:
    set_fault(wire, "stale_context", {"kind": "forgotten", "turns": turns}, "model")
    wire.reply("model", called(4), "/v1/chat/completions")
    assert json.loads(wire.received[-1]) == json.loads(called(left))


class Runner:
    """Answers the gateway's orders to kill the subject, which has no processes here."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def kill(self, path: str = "/") -> tuple[KillOrder, bytes]:
        """Send a request that the subject is killed at; return the order and the bytes received."""
        with State(self._wire.lab.folder / "state.db") as state, ThreadPoolExecutor(1) as client:
            request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
            received = client.submit(ask, self._wire.lab.address("search"), request)
            order = self._until(state, "wanted")
            assert state.kills.move(order, "dead")
            content = received.result(PATIENCE_S)
            self._until(state, "closed")
        return order, content

    def _until(self, state: State, wanted: str) -> KillOrder:
        def last() -> KillOrder | None:
            order = state.kills.last(self._wire.lab.run_id, "e1", 1)
            return order if order is not None and order.state == wanted else None

        order = until(last, f"a kill that is {wanted}")
        assert order is not None
        return order


@pytest.mark.parametrize(
    ("parameters", "wait_s", "grace_s"),
    [
        *(({"at": "after_reply", "wait_ms": ms}, ms / 1000, 3) for ms in (0, 0.001, 59_999.999, 60_000)),
        *(({"signal": "term", "grace": s}, 0, s) for s in (0, 1e-9, 59.999, 60)),
    ],
)
def test_kill_is_ordered_with_its_waits(
    wire: Wire, parameters: dict[str, Any], wait_s: float, grace_s: float
) -> None:
    set_fault(wire, "kill_subject", parameters)
    order, content = Runner(wire).kill()
    assert (order.wait_s, order.grace_s) == pytest.approx((wait_s, grace_s))
    assert content.endswith(BODY) == (wait_s > 0 or parameters.get("at") == "after_reply")


@pytest.mark.parametrize("after", [0, 1, 9_999, 10_000])
def test_client_is_killed_after_that_many_events(wire: Wire, after: int) -> None:
    set_fault(wire, "kill_subject", {"at": "mid_stream", "after": after})
    _, content = Runner(wire).kill("/events")
    assert content.count(EVENT) == after


@pytest.mark.parametrize("times", [1, 2, 99, 100])
def test_client_is_killed_that_often_in_an_attempt(wire: Wire, times: int) -> None:
    set_fault(wire, "kill_subject", {"times": times})
    runner = Runner(wire)
    assert [runner.kill()[0].number for _ in range(times)] == list(range(1, times + 1))
    assert wire.reply("search")[::2] == (200, BODY)


def words(connection: Any) -> None:
    for number in range(4):
        connection.send(f'{{"type": "word", "number": {number}}}')


@pytest.mark.parametrize(
    ("fault", "parameters", "arrive", "waits"),
    [
        *(("ws_delay", {"seconds": s}, [0, 1, 2, 3], [s] * 4) for s in (1e-9, 3599.999, 3600)),
        *(("ws_delay", {"seconds": 9, "at_most": n}, [0, 1, 2, 3], [9] * min(n, 4)) for n in (1, 2, 4, 5)),
        ("ws_drop", {"probability": 1}, [], []),
        ("ws_drop", {"probability": 0}, [0, 1, 2, 3], []),
        *(("ws_drop", {"nth": n}, [at for at in range(4) if at != n - 1], []) for n in (1, 4, 5)),
        ("ws_drop", {"nth": "2-3"}, [0, 3], []),
        ("ws_drop", {"nth": "2-"}, [0], []),
        ("ws_drop", {"at_most": 1}, [1, 2, 3], []),
    ],
)
def test_messages_meet_their_numbers(
    tmp_path: Path, fault: str, parameters: dict[str, Any], arrive: list[int], waits: list[float]
) -> None:
    wire = Wire()
    with websocket_server(words) as server:
        links = Links([Link("voice", f"{server.url}/v1", "realtime")])
        with gateway(tmp_path, links=links, run=wire.run, voice=server) as wire.lab:
            set_fault(wire, fault, {"sender": "server", **parameters}, "voice")
            with client(wire.lab) as connection:
                numbers = [json.loads(message)["number"] for message in connection]
    assert numbers == arrive
    assert wire.waits == pytest.approx(waits)
