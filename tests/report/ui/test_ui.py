"""The server of ``wirefault ui``: its list, its pages, and the requests that it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from urllib.parse import quote

import pytest
import requests

from tests.report.page.recorded import HOSTILE, doubled_order, synthetic
from wirefault.core.api_server import api_in_thread
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.memory.histories import recorded_episodes, sources_in
from wirefault.memory.store import Memory
from wirefault.report.page.parts import PageContent
from wirefault.report.ui.app import Runs, started_text, ui_app

PATIENCE_S = 30


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server for a synthetic run and a doubled order."""
    synthetic(tmp_path, 6)
    doubled_order(tmp_path, HOSTILE)
    listener = bind(Address(LOOPBACK, 0))
    with api_in_thread(ui_app(tmp_path, {}), listener):
        yield f"http://{LOOPBACK}:{bound_address(listener).port}"


def get(url: str, **more: object) -> requests.Response:
    return requests.get(url, timeout=PATIENCE_S, **more)


def listed(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="([^"]+)">', page)


def test_list_links_each_run_and_filters(url: str) -> None:
    page = get(url).text
    assert re.findall(r'<th scope="row"><a href="([^"]+)">', page) == ["/runs/run-b", "/runs/run-a"]
    assert '<th scope="col">worst finding</th><th scope="col">tested</th>' in page
    assert "<td>langchain agent, self-test subject: scripted model (diligent)</td>" in page
    assert "2 of 2" in page and "0 of 2" in get(f"{url}/?kind=audit").text
    assert re.findall(r'<th scope="row"><a href="([^"]+)">', get(f"{url}/?text=run-a").text) == [
        "/runs/run-a"
    ]


def test_page_of_a_run_and_of_two(url: str) -> None:
    page = get(f"{url}/runs/run-b")
    assert (page.status_code, '<h2 id="findings-h">' in page.text) == (200, True)
    assert "connect-src &#39;self&#39;" in page.text and "<img" not in page.text
    both = get(f"{url}/compare?first=run-a&second=run-b")
    assert (both.status_code, "Two recordings compared" in both.text) == (200, True)


def test_memory_has_its_page(url: str, tmp_path: Path) -> None:
    assert get(f"{url}/memory").status_code == 404
    environ = {"LOGS_DIR": str(tmp_path)}
    Memory(tmp_path).rebuild(recorded_episodes(tmp_path, environ, {}), sources_in(tmp_path), {})
    page = get(f"{url}/memory")
    assert (page.status_code, "Success with each fault" in page.text) == (200, True)
    assert re.search(r'<a href="/runs/run-b"><data [^>]+>run-b</data></a>', page.text)
    assert "<img" not in page.text
    assert "not remembered yet" not in page.text


def test_page_of_another_state_is_stale(url: str) -> None:
    [state] = re.findall(r'data-live="(\w+)"', get(f"{url}/runs/run-a").text)
    with get(f"{url}/changes?run=run-a&state={state}", stream=True) as stream:
        assert next(stream.iter_lines()) == b": connected"
    assert get(f"{url}/changes?run=run-a&state=other").text == "event: stale\ndata:\n\n"


def test_slow_page_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic(tmp_path, 2)
    doubled_order(tmp_path)
    started, released = Event(), Event()

    def slow(content: PageContent, live: str) -> str:
        if content.id == "run-a":
            started.set()
            assert released.wait(PATIENCE_S)
        return content.id

    monkeypatch.setattr("wirefault.report.ui.app.page_html", slow)
    runs = Runs(tmp_path, {})
    with ThreadPoolExecutor() as pool:
        first = pool.submit(runs.page, "run-a")
        assert started.wait(PATIENCE_S)
        assert runs.page("run-b") == "run-b"
        released.set()
        assert first.result() == "run-a"


@pytest.mark.parametrize(
    ("name", "started"),
    [("20261127-021604-762dbf", "2026-11-27 02:16:04"), ("run-a", ""), ("20269999-999999-a", "")],
)
def test_start_time_is_the_ids(name: str, started: str) -> None:
    assert started_text(name) == started


@pytest.mark.parametrize("name", ["missing", "../run-a", "..%2f..%2fetc%2fpasswd", quote(HOSTILE, safe="")])
def test_unknown_run_is_a_page_not_a_file(url: str, name: str) -> None:
    reply = get(f"{url}/runs/{name}")
    assert reply.status_code == 404
    assert "<script>alert" not in reply.text
    assert get(f"{url}/compare?first=run-a&second={name}").status_code == 404


def test_altered_run_is_not_shown(url: str, tmp_path: Path) -> None:
    [history] = (tmp_path / "runs" / "run-b").glob("gateway*.jsonl")
    history.write_text(history.read_text(encoding="utf-8").replace("201", "200", 1), encoding="utf-8")
    reply = get(f"{url}/runs/run-b")
    assert reply.status_code == 409
    assert "altered" in reply.text and "gateway-0.jsonl:1" in reply.text
    assert "<td>altered</td>" in get(url).text


def test_other_names_and_methods_are_refused(url: str) -> None:
    for host in ("attacker.example", "[", "127.0.0.1.attacker.example", ""):
        assert get(url, headers={"Host": host}).status_code in (400, 421)
    assert get(url, headers={"Host": "localhost:1"}).status_code == 200
    assert requests.post(url, timeout=PATIENCE_S).status_code == 405
    headers = get(url).headers
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
    assert "Access-Control-Allow-Origin" not in headers


def test_change_of_a_run_is_announced(url: str, tmp_path: Path) -> None:
    [state] = re.findall(r'data-live="(\w+)"', get(f"{url}/runs/run-a").text)
    with get(f"{url}/changes?run=run-a&state={state}", stream=True) as stream:
        lines = stream.iter_lines()
        assert next(lines) == b": connected"
        (tmp_path / "runs" / "run-a" / "more.jsonl").write_text("{}\n", encoding="utf-8")
        assert next(line for line in lines if line.startswith(b"event: ")) == b"event: sections"
    assert get(f"{url}/changes?run=missing").status_code == 404


@pytest.mark.slow
def test_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    synthetic(tmp_path / "logs", 2)
    command = [sys.executable, "-m", "wirefault", "ui", f"--out={tmp_path}", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        [address] = re.findall(r"http://\S+", line)
        assert "run-a" in get(address).text
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE_S) == 0
