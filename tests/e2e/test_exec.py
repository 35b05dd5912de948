"""``wirefault exec``: a command that knows nothing of the lab, broken and accounted for."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.cli_process import CliProcess
from tests.commands import wirefault
from tests.examples.serving import Recorded, shop
from tests.lab.demos import environ_in
from tests.support import latest_run, until
from tests.upstream import Upstream, requests_of
from wirefault.history.events import Event, Exchange, LinkOpened, WentPastLab
from wirefault.history.reader import read_history

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys, urllib.request

def ask(url, body, tries=3):
    for left in reversed(range(tries)):
        try:
            data = json.dumps(body).encode()
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)
        except OSError as error:
            print("failed:", error)
            if not left:
                raise

shop, words = sys.argv[1:]
said = ask("https://api.openai.com/v1/chat/completions",
           {"model": "gpt-5", "messages": [{"role": "user", "content": words}]})
print("model:", said["choices"][0]["message"]["content"])
print("shop:", ask(shop + "/orders", {"item": "honey", "count": 1, "customer": words}))
print("mine:", os.environ.get("SEED"), os.environ.get("MODEL"), os.environ.get("LOGS_DIR"))
"""
# It asks without a proxy, and leaves its connection open for as long as many looks take.
PATIENT = """
import socket, sys
from urllib.parse import urlsplit
shop = urlsplit(sys.argv[1])
with socket.create_connection((shop.hostname, shop.port)) as connection:
    connection.settimeout(2)
    try:
        connection.recv(1)
    except TimeoutError:
        pass
"""
# Two orders as two threads send them: both connect, then one reply is lost, then the other order is sent.
PARALLEL = """
import http.client, sys
from urllib.parse import urlsplit
shop = urlsplit(sys.argv[1])

def connected():
    connection = http.client.HTTPConnection(shop.hostname, shop.port, timeout=30)
    connection.connect()
    return connection

def order(connection):
    body = '{"item": "honey", "count": 1, "customer": "Ada"}'
    try:
        connection.request("POST", "/orders", body, {"Content-Type": "application/json"})
        print("ordered:", connection.getresponse().status)
    except OSError:
        print("lost")

connected().request("GET", "/health")
first, second = connected(), connected()
order(first)
order(second)
"""
LANGGRAPH = """
import sys, traceback, urllib.request
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

class State(TypedDict):
    messages: Annotated[list, add_messages]

@tool
def place_order(item: str) -> str:
    "Order."
    for _ in range(2):
        try:
            order = urllib.request.Request(sys.argv[1] + "/orders", item.encode())
            order.add_header("Content-Type", "application/json")
            return urllib.request.urlopen(order).read().decode()
        except OSError:
            print(traceback.format_exc())
    raise RuntimeError("no order")

order = '{"item": "honey", "count": 1, "customer": "Ada"}'
calls = [{"name": "place_order", "args": {"item": order}, "id": "1"}]
graph = StateGraph(State)
graph.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
graph.add_node("tools", ToolNode([place_order]))
graph.add_edge(START, "model")
graph.add_edge("model", "tools")
print("ordered:", graph.compile().invoke({"messages": [HumanMessage("tea")]})["messages"][-1].content)
"""
# An MCP server whose program is slow to start, as most are, and a client that starts it by the words it gets.
STDIO_SERVER = """
import json, sys, time
time.sleep(0.5)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}}), flush=True)
"""
STDIO_CLIENT = """
import json, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
    for number, method in enumerate(("initialize", "tools/call")):
        params = {"protocolVersion": "2025-06-18", "name": "order", "arguments": {}}
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(asked).encode() + b"\\n")
        server.stdin.flush()
        print(method, server.stdout.readline())
    server.stdin.close()
"""
# as pyenv's shims do
SHIM = f"""#!/bin/sh
PATH="{Path(sys.executable).parent}:$PATH" exec {sys.executable} "$@"
"""
ONCE = {"first": 1, "of": "try"}
FIRST_POST = {"fault": "lose_reply", "links": "tools", "only": {"method": "POST"}, "when": ONCE}


class Ran:
    """A command run by ``wirefault exec`` in its own folder."""

    def __init__(
        self, folder: Path, *words: str, environ: dict[str, str] | None = None, stdin_text: str = ""
    ) -> None:
        self.out = folder / "out"
        words = ("exec", "--out", str(self.out), "--seed", "7", *words)
        done = wirefault(folder, environ_in(folder) | (environ or {}), *words, stdin_text=stdin_text)
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    def events(self) -> list[Event]:
        logs = self.out / "logs"
        return read_history(logs, latest_run(logs)).events()

    def exchanges(self, link: str) -> list[Exchange]:
        return [event for event in self.events() if isinstance(event, Exchange) and event.link == link]


@pytest.fixture
def agent(tmp_path: Path) -> str:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    return str(tmp_path / "agent.py")


def links_in(ran: Ran) -> set[str]:
    return {event.link.name for event in ran.events() if isinstance(event, LinkOpened)}


def port_link(record: Recorded) -> str:
    return f"port_{record.url.rpartition(':')[2]}"


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_calls_of_any_command_are_found_faulted_and_recorded(
    tmp_path: Path, agent: str, tap: str, request: pytest.FixtureRequest
) -> None:
    if tap == "namespace":
        request.getfixturevalue("namespaces")
    wiring = tmp_path / "found.yaml"
    with shop(tmp_path / "shop.db") as record:
        options = ["--scripted", "--tap", tap, "--faults", json.dumps({"faults": [FIRST_POST]})]
        command = ["--record", str(wiring), "--", sys.executable, agent, record.url, "Say hello"]
        ran = Ran(tmp_path, *options, *command, environ={"SEED": "mine", "MODEL": "gpt-5"})
        link = port_link(record)
        assert "shop:" in ran.stdout, ran.stderr
        struck, again = ran.exchanges(link)
        assert [fault.kind for fault in struck.faults if fault.injected] == [
            "lose_reply"
        ] and not again.faults
        assert record.requests == [("POST", "/orders")] * 2
        assert [exchange.target for exchange in ran.exchanges("openai")] == ["/v1/chat/completions"]
        assert links_in(ran) == {link, "openai"}
        assert "mine: mine gpt-5 None" in ran.stdout
        assert ran.code == 1  # a write that was done again is a finding
        assert "1 of 1 failed requests were sent again, 1 got through" in " ".join(ran.stderr.split())

        arguments = ["run", str(wiring), "--prompt", "x", "--no-charts", "--toxic-prob", "0"]
        rerun = wirefault(tmp_path, environ_in(tmp_path), *arguments, "--error-prob", "0")
        assert rerun.returncode == 0, rerun.stdout + rerun.stderr
        assert record.requests == [("POST", "/orders")] * 3


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("python3", 0, "server stdio (MCP) 2 lose_reply"),
        (sys.executable, 2, f"past the lab: MCP server over a pipe ({Path(sys.executable).name} server.py)"),
    ],
    ids=["by name", "by path"],
)
def test_mcp_server_of_a_python_behind_a_shim_is_led_through_the_lab_or_named(
    tmp_path: Path, namespaces: None, program: str, code: int, words: str
) -> None:
    (tmp_path / "server.py").write_text(STDIO_SERVER, encoding="utf-8")
    (tmp_path / "client.py").write_text(STDIO_CLIENT, encoding="utf-8")
    shim = tmp_path / "shims" / "python3"
    shim.parent.mkdir()
    shim.write_text(SHIM, encoding="utf-8")
    shim.chmod(0o755)
    environ = {"PATH": f"{shim.parent}:{environ_in(tmp_path)['PATH']}"}
    command = ["python3", "client.py", program, "server.py"]
    ran = Ran(tmp_path, "--faults", "lose_reply", "--record", "found.yaml", "--", *command, environ=environ)
    assert "initialize" in ran.stdout and words in " ".join(ran.stderr.split()), ran.stderr
    assert ran.code == code
    rerun = ["run", "found.yaml", "--faults", "lose_reply", "--no-charts"]
    again = wirefault(tmp_path, environ_in(tmp_path) | environ, *rerun)
    assert again.returncode == code and ("server lose_reply;" in again.stdout) == (code == 0)


def test_request_on_a_connection_from_before_the_loss_repeats_nothing(
    tmp_path: Path, namespaces: None
) -> None:
    with shop(tmp_path / "shop.db") as record:
        options = ["--faults", json.dumps({"faults": [FIRST_POST]})]
        ran = Ran(tmp_path, *options, "--", sys.executable, "-c", PARALLEL, record.url)
        assert record.requests.count(("POST", "/orders")) == 2
    assert ran.stdout.startswith("lost\nordered: 2"), ran.stderr
    assert ran.code == 0 and "0 of 1 failed requests were sent again" in " ".join(ran.stderr.split())


@pytest.mark.parametrize(
    ("only", "code", "orders"), [({}, 1, 2), ({"tool": "place_order"}, 0, 1)], ids=["network", "by name"]
)
def test_fault_goes_to_the_requests_of_a_langgraph_tool_or_to_the_tool_by_name(
    tmp_path: Path, only: dict[str, str], code: int, orders: int
) -> None:
    (tmp_path / "agent.py").write_text(LANGGRAPH, encoding="utf-8")
    faults = {"faults": [{"fault": "lose_reply", "links": "tools", "only": only, "when": ONCE}]}
    with shop(tmp_path / "shop.db") as record:
        words = ("--faults", json.dumps(faults), "--", sys.executable, str(tmp_path / "agent.py"), record.url)
        ran = Ran(tmp_path, *words)
        assert record.requests == [("POST", "/orders")] * orders
    assert ran.code == code, ran.stderr
    assert ("ordered:" in ran.stdout, "HARM" in ran.stderr) == (not only, not only)
    assert "marking.py" not in ran.stdout + ran.stderr and "call.py" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("prompts", ["none", "texts", "file"])
def test_recorded_wiring_runs_by_its_own_hint(tmp_path: Path, prompts: str) -> None:
    (tmp_path / "prompts.json").write_text('[{"prompt": "Say hello"}]', encoding="utf-8")
    options = {"none": (), "texts": ("--prompt", "Say it's me"), "file": ("--prompts", "prompts.json")}[
        prompts
    ]
    ran = Ran(tmp_path, "--record", "found.yaml", *options, "--", sys.executable, "-c", "print(input or 1)")
    assert ran.code == 0, ran.stderr
    hint = (tmp_path / "found.yaml").read_text(encoding="utf-8").partition("To run it: ")[2].splitlines()[0]
    words = shlex.split(hint.replace("FILE", "found.yaml"))[1:]
    rerun = wirefault(tmp_path, environ_in(tmp_path), *words, "--no-charts")
    assert rerun.returncode == 0, rerun.stdout + rerun.stderr


def test_command_has_its_arguments_input_and_outputs(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@" "$OPENAI_API_KEY"; cat; echo no >&2\n', encoding="utf-8")
    program.chmod(0o755)
    ran = Ran(tmp_path, "--scripted", "--", "./agent", "agent", ".", "-x", "a b", stdin_text="line\n")
    assert ran.stdout == "agent|.|-x|a b|scripted-model|line\n" and ran.code == 0
    assert "no\n" in ran.stderr and "history: " in ran.stderr


STUBBORN = """
import signal, sys, time
def note(number, frame):
    print("signal", number, flush=True)
    if number in map(int, sys.argv[1:]):
        sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, note)
open("up", "w").close()
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("ends_by", "signals"), [(2, [2]), (15, [2, 15]), (9, [2, 15])])
def test_interrupted_command_gets_signal_then_sigterm(
    tmp_path: Path, ends_by: int, signals: list[int]
) -> None:
    words = ("exec", "--tap", "proxy", "--", sys.executable, "-c", STUBBORN, str(ends_by))
    with CliProcess(tmp_path, environ_in(tmp_path), *words) as running:
        until((tmp_path / "up").exists)
        running.send_signal(signal.SIGINT)
        lines = running.output().splitlines()
    assert [line for line in lines if line.startswith("signal ")] == [f"signal {each}" for each in signals]
    assert running.returncode == 130


def test_run_without_met_fault_is_not_success(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "--faults", "moderate", "--", sys.executable, "-c", "print('nothing to do')")
    assert ran.code == 2
    assert ran.stdout == "nothing to do\n" and "no fault was met" in ran.stderr
    assert "no calls: the lab saw" in ran.stderr
    assert "another --seed" not in ran.stderr  # no seed helps a command that calls nothing


def test_calls_without_a_met_fault_name_the_next_step(tmp_path: Path) -> None:
    never = {"faults": [{"fault": "server_error", "links": "all", "when": {"probability": 0}}]}
    program = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + '/orders', timeout=30)"
    with shop(tmp_path / "shop.db") as record:
        words = ("--faults", json.dumps(never), "--", sys.executable, "-c", program, record.url)
        ran = Ran(tmp_path, *words)
    assert ran.code == 2 and "try another --seed" in " ".join(ran.stderr.split())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
@pytest.mark.parametrize(("faults", "code"), [("lost-replies", 2), ("", 0)])
def test_bypassing_traffic_is_reported_and_not_success(tmp_path: Path, faults: str, code: int) -> None:
    with shop(tmp_path / "shop.db") as record:
        command = [sys.executable, "-c", PATIENT, record.url]
        ran = Ran(tmp_path, "--tap", "proxy", "--faults", faults, "--json", "sum.json", "--", *command)
    assert ran.code == code, ran.stderr
    place = record.url.removeprefix("http://")
    [seen] = [event for event in ran.events() if isinstance(event, WentPastLab)]
    assert (f"{seen.host}:{seen.port}", seen.program[:6]) == (place, "python")
    summary = json.loads((tmp_path / "sum.json").read_text(encoding="utf-8"))
    assert [past["port"] for past in summary["went_past"]] == [seen.port]
    assert [finding["rule"] for finding in summary["findings"]] == ["past_the_lab"]
    assert f"connection bypassed the lab: {seen.program} to {place}" in " ".join(ran.stderr.split())


def test_failed_command_is_reported_with_exit_code(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "--", sys.executable, "-c", "raise SystemExit('no')")
    assert ran.code == 0 and "the command ended with exit code 1" in ran.stderr


def test_failed_server_is_not_command_or_lab_failure(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")

    with Upstream(serve) as upstream:
        program = f"import urllib.request as web; web.urlopen('{upstream.address.url}/price')"
        ran = Ran(tmp_path, "--", sys.executable, "-c", program)
    assert ran.code == 2
    assert "a server failed in every episode: upstream_unavailable" in " ".join(ran.stderr.split())


def test_offline_reaches_no_outside_host(tmp_path: Path, agent: str) -> None:
    with shop(tmp_path / "shop.db") as record:
        ran = Ran(tmp_path, "--offline", "--", sys.executable, agent, record.url, "Say hello")
    assert ran.code == 0 and "failed:" in ran.stdout and "model:" not in ran.stdout
    assert not ran.exchanges("openai")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "ht tp", "--", "true"], "'ht tp' is not a host"),
        (["--tap", "socks", "--", "true"], "'socks' is not one of"),
        (["--faults", "lost-replys", "--", "true"], "did you mean 'lost-replies'"),
        (["--", "no-such-program"], "missing program 'no-such-program'"),
        (["--", "agent.py"], "'agent.py' is a file, not a program: name its interpreter"),
        (["--json", "--", "true"], "--json: needs a file, not '--'"),
        (["--record", "no/such/found.yaml", "--", "true"], "no/such/found.yaml: no such folder"),
        ([], "Missing argument"),
    ],
)
def test_usage_error_comes_before_start(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "agent.py").write_text("print('hello')", encoding="utf-8")
    ran = Ran(tmp_path, *words)
    assert ran.code == 64 and message in ran.stderr and "Traceback" not in ran.stderr
    assert "ready" not in ran.stderr
