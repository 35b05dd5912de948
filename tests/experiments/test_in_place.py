"""Experiments on functions of this process, run in a real lab."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.shared_imports import shared_imports
from tests.support import ROOT
from wirefault import Experiment, tool
from wirefault.core.errors import InputError
from wirefault.history.events import WentPastLab

pytestmark = pytest.mark.slow


@dataclass
class Shop:
    """A server that takes orders."""

    orders: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            shop.orders.append(json.loads(body))
            self.answer(201)

        def do_GET(self) -> None:
            self.answer(200)

        def answer(self, status: int) -> None:
            body = json.dumps({"orders": len(shop.orders)}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    shop.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield shop
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with shared_imports():
        yield


def quiet(_: str) -> None:
    pass


def wired(shop: Shop) -> dict[str, Any]:
    return {"links": {"shop": {"upstream": shop.url, "writes": ["POST /orders"]}}}


def test_function_that_orders_once_is_held(shop: Shop) -> None:
    with httpx.Client() as client:  # made before the run

        def agent(prompt: str) -> str:
            try:
                client.post(f"{shop.url}/orders", json={"item": prompt})
            except httpx.HTTPError:
                return "I could not confirm the order."
            return "Ordered."

        report = Experiment(
            subject=agent,
            wiring=wired(shop),
            prompts=["Order one apple"],
            faults=["lost-replies"],
            checks=["no duplicate"],
            seed=1,
        ).run(say=quiet)
    assert report.verdict == "held", str(report)
    assert len(shop.orders) == 3  # before, under faults, and after


def test_function_that_orders_again_is_deviated(shop: Shop) -> None:
    def agent(prompt: str) -> str:
        for _ in range(2):
            try:
                httpx.post(f"{shop.url}/orders", json={"item": prompt})
            except httpx.HTTPError:
                continue
            return "Ordered."
        return "I could not confirm the order."

    report = Experiment(
        subject=agent,
        wiring=wired(shop),
        prompts=["Order one apple"],
        faults=["lost-replies"],
        checks=["no duplicate"],
        seed=1,
    ).run(say=quiet)
    assert report.verdict == "deviated", str(report)
    assert len(shop.orders) == 4


def test_function_without_calls_is_unknown() -> None:
    report = Experiment(
        subject=lambda prompt: "Ordered.",
        prompts=["Order one apple"],
        faults=["lost-replies"],
        checks=["no duplicate"],
    ).run(say=quiet)
    assert report.verdict == "unknown"
    assert "no fault reached it" in report.because


def test_report_has_arms_episodes_and_metrics(shop: Shop) -> None:
    seen: list[tuple[float, int]] = []
    events: list[str] = []

    def agent(prompt: str, context: Any) -> dict[str, str]:
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{shop.url}/orders")
        seen.append((context.elapsed, context.metrics.calls))
        return {"response": f"Looked for {prompt}."}

    def judge(episode: Any) -> bool:
        return httpx.get(f"{shop.url}/orders").status_code == 200 and "apples" in episode.answer

    report = Experiment(
        subject=agent,
        wiring=wired(shop),
        prompts=["apples"],
        faults=[{"fault": "server_error", "links": "shop"}],
        checks=["completes", judge],  # no fault reaches the request of a check
        seed=1,
    ).run(
        say=quiet,
        on_event=lambda event: events.append(event.event),
        after_attempt=lambda context, answer: (context.attempt, answer),
    )
    assert report.verdict == "held", str(report)
    assert list(report.arms) == ["control", "method", "control-after"]
    [episode] = report.arms["method"].episodes
    assert episode.answer == "Looked for apples." and episode.probed == [(1, "Looked for apples.")]
    assert episode.metrics.calls == 1 and episode.metrics.failed_calls == 1
    assert [(fault.fault, fault.injected) for fault in episode.metrics.faults] == [("server_error", True)]
    assert len(seen) == 3 and all(elapsed >= 0 for elapsed, _ in seen)
    assert events.count("run_finished") == 3 and "exchange" in events


class Talker:
    """An agent that remembers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def run(self, prompt: str) -> str:
        self.heard.append(prompt)
        await asyncio.sleep(0)
        return " ".join(self.heard)


def test_class_with_coroutine_takes_turns_from_callable() -> None:
    report = Experiment(
        subject=Talker,
        prompts=[{"turns": ["one", lambda history: "two" if len(history) == 2 else None]}],
        checks=[lambda episode: episode.answer == "one two", "completes"],
    ).run(say=quiet)
    assert report.verdict == "held", str(report)
    assert list(report.arms) == ["checks"]


def test_check_that_fails_without_faults_is_deviated() -> None:
    report = Experiment(
        subject=lambda prompt: "no idea", prompts=["one"], checks=[{"answer_contains": "Oslo"}]
    ).run(say=quiet)
    assert report.verdict == "deviated", str(report)


def test_coroutine_runs_in_callers_loop(shop: Shop) -> None:
    async def main() -> None:
        loops = []
        async with httpx.AsyncClient() as client:

            async def agent(prompt: str) -> str:
                loops.append(asyncio.get_running_loop())
                with contextlib.suppress(httpx.HTTPError):
                    await client.get(f"{shop.url}/orders")
                return "Looked."

            experiment = Experiment(
                subject=agent,
                prompts=["Look"],
                faults=[{"fault": "server_error", "links": "tools"}],
                checks=["completes"],
            )
            report = await experiment.run_async(say=quiet)
        assert report.verdict == "held", str(report)
        assert set(loops) == {asyncio.get_running_loop()}
        # in a running loop, the other way blocks it and has a loop for the subject
        assert Experiment(subject=Talker, prompts=["one"], checks=["completes"]).run(say=quiet).passed

    asyncio.run(main())


def test_loop_client_context_and_database_work_in_place(shop: Shop) -> None:
    caller: ContextVar[str] = ContextVar("caller")
    database = sqlite3.connect(":memory:")  # of this thread alone
    database.execute("CREATE TABLE orders (item TEXT)")

    @tool(writes=True)
    def record(item: str) -> int:
        database.execute("INSERT INTO orders VALUES (?)", [f"{item} for {caller.get()}"])
        return int(database.execute("SELECT count(*) FROM orders").fetchone()[0])

    async def main() -> None:
        caller.set("Ada")
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        async with httpx.AsyncClient() as client:
            await client.get(f"{shop.url}/orders", headers={"Connection": "close"})  # binds it to the loop

            @tool
            async def look(item: str) -> int:
                assert caller.get() == f"Ada, {item}"
                return (await client.get(f"{shop.url}/orders")).status_code

            async def agent(prompt: str) -> str:
                assert caller.get() == "Ada"  # of the caller of run_async, not of the attempt before
                caller.set(f"Ada, {prompt}")
                filling = asyncio.create_task(queue.put(record(prompt)))
                count = await queue.get()
                await filling
                return f"{await look(prompt)}, {count} orders"

            report = await Experiment(
                subject=agent,
                prompts=["apples", "pears"],
                checks=["completes", lambda episode: len(episode.requests) == 3],
            ).run_async(say=quiet)
            assert report.verdict == "held", str(report)
            assert [episode.answer for episode in report.episodes] == ["200, 1 orders", "200, 2 orders"]

    asyncio.run(main())
    rows = database.execute("SELECT item FROM orders").fetchall()
    database.close()
    assert rows == [("apples for Ada, apples",), ("pears for Ada, pears",)]


def test_connection_from_before_is_noticed(shop: Shop) -> None:
    with httpx.Client(limits=httpx.Limits(keepalive_expiry=600)) as client:
        client.get(f"{shop.url}/orders")  # kept open

        def agent(prompt: str) -> str:
            client.get(f"{shop.url}/orders")
            return "Looked."

        report = Experiment(
            subject=agent,
            prompts=["Look"],
            faults=[{"fault": "server_error", "links": "tools"}],
            checks=["completes"],
        ).run(say=quiet)
    assert report.verdict == "unknown", str(report)
    past = [event for event in report.arms["method"].episodes[0].events if isinstance(event, WentPastLab)]
    assert past and "open before the attempt" in past[0].program


def test_variables_and_sockets_are_restored(shop: Shop) -> None:
    before = dict(os.environ), socket.socket.connect, socket.getaddrinfo, ssl.SSLContext.wrap_socket
    Experiment(subject=lambda prompt: "Done.", prompts=["one"], checks=["completes"]).run(say=quiet)
    after = dict(os.environ), socket.socket.connect, socket.getaddrinfo, ssl.SSLContext.wrap_socket
    assert after == before


def test_child_process_is_intercepted(shop: Shop) -> None:
    program = f"import urllib.request as u; print(u.urlopen('{shop.url}/orders').status)"

    def agent(prompt: str) -> str:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    report = Experiment(
        subject=agent,
        prompts=["Look"],
        faults=[{"fault": "server_error", "links": "tools"}],
        checks=[{"answer_contains": "HTTP Error 50"}],
    ).run(say=quiet)
    assert report.verdict == "held", str(report)


def test_function_that_hangs_on_fault_ends_with_its_attempt(shop: Shop) -> None:
    with httpx.Client(timeout=None) as client:

        def agent(prompt: str) -> str:
            return str(client.get(f"{shop.url}/orders").status_code)

        report = Experiment(
            subject=agent,
            prompts=["one", "two"],
            faults=[{"fault": "hang", "links": "tools"}],
            checks=["completes"],
            settings={"attempt_time": 1, "prompt_limit": 1},
        ).run(say=quiet)
    assert report.verdict == "deviated", str(report)
    assert ["no answer within" in episode.why for episode in report.arms["method"].episodes] == [True, True]
    assert [episode.answer for episode in report.arms["control-after"].episodes] == ["200", "200"]
    assert not [episode for episode in report.episodes if episode.outcome == "invalid"]


def test_tools_of_this_process_are_struck() -> None:
    orders: list[str] = []

    @tool(writes=True)
    def order(item: str) -> str:
        orders.append(item)
        return "ordered"

    def agent(prompt: str) -> str:
        with contextlib.suppress(Exception):  # as a client of the tool raises it
            return order("apple")
        return "I could not confirm the order."

    report = Experiment(
        subject=agent,
        prompts=["Order one apple"],
        faults=[{"fault": "server_error", "links": "functions"}],
        checks=["completes"],
    ).run(say=quiet)
    assert report.verdict == "held", str(report)


def test_report_prints_harm_before_a_verdict_that_held() -> None:
    @tool(writes=True)
    def order(item: str) -> str:
        return "ordered"

    def agent(prompt: str) -> str:
        with contextlib.suppress(Exception):
            return order("apple")
        return order("apple")

    report = Experiment(
        subject=agent,
        prompts=["Order one apple"],
        faults=[{"fault": "lose_reply", "links": "functions", "when": {"first": 1, "of": "try"}}],
        checks=["completes"],
    ).run(say=quiet)
    first, second, *_ = str(report).splitlines()
    assert first.startswith(
        "harmful, although the hypothesis held: method, write_repeated: Your agent made the same write"
    )
    assert second.startswith("held: ")


def test_both_ways_to_run_have_the_same_options() -> None:
    run, run_async = map(inspect.signature, (Experiment.run, Experiment.run_async))
    assert run_async.parameters == run.parameters
    with pytest.raises(TypeError, match="unexpected keyword argument 'worker'"):
        asyncio.run(Experiment(subject=Talker, prompts=["x"], checks=["completes"]).run_async(worker=1))


def test_workers_need_name_of_function() -> None:
    experiment = Experiment(subject=Talker, prompts=["one"], checks=["completes"])
    with pytest.raises(InputError, match="must be 1 for a function of this process"):
        experiment.run(workers=2)


def test_experiment_of_readme_holds(shop: Shop) -> None:
    [program] = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(program.strip().splitlines()) <= 12
    exec(program.replace("http://127.0.0.1:9000", shop.url), {})
    assert len(shop.orders) == 3


def test_guide_of_python_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    _, in_place, arms, report, callbacks, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:6]
    names: dict[str, Any] = {}
    exec(in_place, names)
    assert names["report"].verdict == "held", names["report"].because
    assert names["orders"] == ["apple"] * 3  # before, under faults, and after
    exec(report, names)
    printed = capsys.readouterr().out
    assert "held: all of" in printed and "method 0 of 1" in printed and "['lose_reply']" in printed
    exec(callbacks, names)
    assert capsys.readouterr().out == "[[1], [1], [1]]\n"
    assert names["links"] == ["functions"] * 3
    exec(arms, names)
    assert names["levels"].run(say=quiet).verdict == "held"
    rows = re.findall(r"^\| `((?:report|episode)\.[\w.()]+)`.*? \| (.*?) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for first, content in rows:
        exec(f"value = {first}", names | {"episode": names["report"].episodes[0]}, scope := {})
        value: Any = scope["value"]
        if first in ("report.checks", "report.episodes", "episode.metrics"):
            owner = value if first == "episode.metrics" else value[0]
            named = set(re.findall(r"`(\w+)`", content))
            assert named and named <= set(dir(owner)), named - set(dir(owner))
