"""A user's subject in a container next to the lab, as in compose.subject.yaml."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.compose.engine import IMAGE, V1, V2, has
from tests.compose.rig import SELDOM, Lab, copy_clone, environment
from tests.compose.test_isolation import PORTS, addresses, from_service
from tests.compose.test_reach import SEARCH
from tests.e2e.test_one_policy import AGENT, EVENTS, IDS, judged, shop_app
from tests.support import until
from tests.upstream import serving
from wirefault.core.sockets import (
    CONTROL_PORT,
    EGRESS_PORT,
    INGRESS_PORT,
    MANAGER_PORT,
    TOXIPROXY_PORT,
    Address,
)
from wirefault.history.events import ConnectionEnded, Event, Exchange
from wirefault.history.reader import LIVE, HistoryError, read_run
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.compose

FOLDER = "examples/compose"
AT_THE_SUBJECT = {"message": 6005, "calculator": 6004}  # the proxies of its links
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
BY_THE_INGRESS = """
import requests
for url in {urls}:
    try:
        print(requests.get(url, timeout=30).status_code)
    except requests.RequestException as error:
        print(type(error).__name__)
"""


RESERVE = """
import subprocess
from pathlib import Path

from langchain_core.tools import tool

RAN = Path.home() / "ran.txt"
answer_without_tools = answer


@tool
def reserve(item: str) -> dict:
    'Reserve an item.'
    with RAN.open("a") as file:
        print(item, file=file)
    return {"item": item, "number": 7}


def answer(prompt: str) -> str:
    if prompt.startswith("Shop "):
        words = [sys.executable, "/subject/shopper.py", prompt.removeprefix("Shop ")]
        return subprocess.run(words, stdout=subprocess.PIPE, check=prompt != "Shop honest", text=True).stdout
    if not prompt.startswith("Reserve "):
        return answer_without_tools(prompt)
    try:
        return f"Reserved: {reserve.invoke({'item': prompt.removeprefix('Reserve ')})}"
    except Exception as error:
        return f"I could not do that: {type(error).__name__}."
"""


@pytest.fixture(scope="module")
def lab(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab with the example's subject, whose wiring lets it call any host; its first run is over."""
    folder = tmp_path_factory.mktemp("subject")
    copy_clone(folder)
    wiring = folder / FOLDER / "wirefault.yaml"
    wiring.write_text(wiring.read_text().replace("{tap: proxy, offline: true}", "{tap: proxy}"))
    agent = folder / FOLDER / "agent.py"
    agent.write_text(agent.read_text().replace('@app.post("/ask")', f'{RESERVE}\n\n@app.post("/ask")'))
    more = {"COMPOSE_FILE": "docker-compose.yaml:compose.subject.yaml"}
    more["SUBJECT_IMAGE"] = IMAGE
    more["ARM_TIMEOUT"] = "60"  # a busy machine is not a failure of the lab
    lab = Lab(folder, environment("subject-") | more, V2 if has(V2) else V1)
    try:
        lab.compose("up -d", TOXIC_PROB="0", ERROR_PROB="0")
        assert lab.wait() == 0, lab.last_words()
        yield lab
    finally:
        lab.down()


def exchanges(lab: Lab) -> list[Exchange]:
    return [event for event in read_run(lab.logs, lab.runs()[-1]) if isinstance(event, Exchange)]


def test_subject_calls_cross_lab_by_ingress_and_address(lab: Lab) -> None:
    assert lab.last_run().outcomes == {"success": 2}
    assert {exchange.link: exchange.tls for exchange in exchanges(lab)} == {
        "message": "fresh",
        "calculator": "",
    }
    variables = f"SUBJECT_FOLDER={FOLDER} SUBJECT_IMAGE={IMAGE}"
    repeats = f"{variables} docker compose -f docker-compose.yaml -f compose.subject.yaml up"
    assert any(line.endswith(repeats) for line in lab.log("agent"))


def test_both_calls_are_faulted(lab: Lab) -> None:
    done = lab.play("docker compose run --rm -e TOXIC_PROB=0 -e ERROR_PROB=1 -e SEED=1 agent")
    assert done.returncode in (0, 1), done.stderr  # by their pauses quick tries may be a retry storm
    struck = {exchange.link for exchange in exchanges(lab) for fault in exchange.faults if fault.injected}
    assert struck == set(AT_THE_SUBJECT)
    lab.compose("run --rm -e TOXIC_PROB=1 -e TOXICS=timeout:300 -e ERROR_PROB=0 -e SEED=1 agent")
    assert "success" not in lab.last_run().outcomes
    assert lab.last_run().toxics_left == 0


EXECUTED = {
    "none": 1,
    "lose_reply": 1,
    "lose_request": 0,
    "duplicate_request": 2,
    "unavailable": 0,
    "hang": 1,
    "wrong_value": 1,
    "changed_arguments": 1,
}
"""How often the function runs under each fault."""


def test_functions_of_subject_are_faulted_as_recorded(lab: Lab) -> None:
    prompts = lab.folder / FOLDER / "prompts.json"
    sample = prompts.read_text()
    prompts.write_text(json.dumps([{"id": kind, "prompt": f"Reserve {kind}"} for kind in EXECUTED]))
    entries = [
        {"fault": kind, "links": "tools", "only": {"tool": "reserve", "episodes": [kind]}}
        for kind in EXECUTED
        if kind != "none"
    ]
    entries[4]["with"] = {"limit": 0.5}
    (lab.folder / "experiments" / "functions.yaml").write_text(json.dumps({"faults": entries}))
    try:
        lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=0 -e FAULTS=experiments/functions.yaml agent")
    finally:
        prompts.write_text(sample)
    calls = {exchange.episode: exchange for exchange in exchanges(lab)}
    assert {kind: [hit.kind for hit in calls[kind].faults if hit.injected] for kind in EXECUTED} == {
        kind: [] if kind == "none" else [kind] for kind in EXECUTED
    }
    assert {call.link for call in calls.values()} == {"functions"}
    items = lab.python(
        "subject", "from pathlib import Path; print((Path.home() / 'ran.txt').read_text())"
    ).split()
    assert {kind: items.count(kind) for kind in EXECUTED if kind != "changed_arguments"} == {
        kind: count for kind, count in EXECUTED.items() if kind != "changed_arguments"
    }
    assert len(items) == sum(EXECUTED.values())  # one has another item


# The events of tests/e2e/test_one_policy.py, each a run of `docker compose run agent`, all in one container.
# A process that has the imports already is forked for each.
EACH = """
import json, os
import wirefault.cli.run, wirefault.cli.run_process, wirefault.experiments.recorded
import wirefault.report.page.write, wirefault.subjects.http_agent
from wirefault.cli.main import main

for id, faults in {faults}.items():
    read, write = os.pipe()
    if not os.fork():
        os.dup2(write, 1)
        main(["run", "--lab", "--prompts", f"{folder}/{{id}}.json", "--faults", json.dumps(faults), "--json"])
    os.close(write)
    with open(read) as output:
        summary = json.load(output)
    print(json.dumps([id, os.waitstatus_to_exitcode(os.wait()[1]), summary]), flush=True)
"""
NO_WAY_PAST = "the lab bypassed"  # the subject's network leads to the lab alone


@pytest.fixture(scope="module")
def judged_events(lab: Lab) -> dict[str, tuple[int, dict[str, Any]]]:
    """The exit code and the summary of a run for each event, at a shop on this machine."""
    folder = lab.folder / FOLDER
    with serving(shop_app(), at=Address("0.0.0.0", 0)) as address:
        (folder / "shopper.py").write_text(AGENT.format(url=f"http://host.docker.internal:{address.port}"))
        for id, name in IDS.items():
            entry = {"id": "one", "prompt": f"Shop {EVENTS[name].behaviour}"}
            if EVENTS[name].expect:
                entry["expect"] = EVENTS[name].expect
            (folder / f"{id}.json").write_text(json.dumps([entry]))
        faults = {id: {"faults": [EVENTS[name].fault]} for id, name in IDS.items()}
        (folder / "each.py").write_text(EACH.format(folder=FOLDER, faults=faults))
        words = f"run --rm -e PYTHONPATH=/app -e TOXIC_PROB=0 -e ERROR_PROB=0 agent python {FOLDER}/each.py"
        done = lab.play(f"docker compose {words}")
    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    return {IDS[id]: (code, summary) for id, code, summary in ended}


@pytest.mark.parametrize("name", EVENTS)
def test_event_is_judged_as_by_other_commands(
    judged_events: dict[str, tuple[int, dict[str, Any]]], name: str
) -> None:
    event = EVENTS[name]
    code, summary = judged_events[name]
    expected = [] if event.control or not event.rule or name == NO_WAY_PAST else [event.finding]
    assert (judged(summary["findings"]), code) == (expected, 0 if event.control else event.code)
    assert any("shows nothing" in remark for remark in summary["remarks"]) == (code == 2)


def test_subject_with_its_own_path_keeps_lab_startup(lab: Lab) -> None:
    path = "/wirefault/functions/startup:/subject"
    code = "import sys; print(sys.path[1:3], '_wirefault_functions' in sys.modules)"
    printed = lab.compose(f'run --rm --no-deps subject python -c "{code}"', SUBJECT_PYTHONPATH=path)
    assert f"{path.split(':')} True" in printed


def test_standalone_command_is_faulted_as_live_traffic(lab: Lab) -> None:
    host = {"WIRING": f"{FOLDER}/wirefault.yaml"}
    down = "{faults: [{fault: unavailable, links: tools}]}"
    (lab.folder / "experiments" / "down.yaml").write_text(down)
    assert lab.play("wirefault faults set experiments/down.yaml", **host).returncode == 0
    answer = lab.compose("run --rm subject python /subject/agent.py 'Send Bob \"hello\"'")
    assert "I could not do that" in answer
    done = lab.play("wirefault faults clear && wirefault faults status", **host)
    assert "on message: met 1, injected 1" in done.stdout, done.stdout + done.stderr


def test_subject_reaches_proxies_and_ingress_only(lab: Lab) -> None:
    ports = [*PORTS, INGRESS_PORT, EGRESS_PORT]
    targets = [(name, port) for names in addresses(lab).values() for name in sorted(names) for port in ports]
    opened = {target for target, how in from_service(lab, "subject", *targets).items() if how == "open"}
    assert {port for _, port in opened} == {*AT_THE_SUBJECT.values(), INGRESS_PORT}
    assert {name for name, _ in opened} <= addresses(lab)["toxiproxy"] | addresses(lab)["ingress"]


def test_ingress_does_not_route_to_lab_services(lab: Lab) -> None:
    """By whatever name or address, in plain or as a tunnel."""
    at = addresses(lab)
    parts = [(name, TOXIPROXY_PORT) for name in at["toxiproxy"]]
    parts += [(name, CONTROL_PORT) for name in at["gateway"]]
    parts += [(name, EGRESS_PORT) for name in at["gateway"]]
    parts += [(link.service, link.port) for link in lab_links() if link.name not in AT_THE_SUBJECT]
    urls = [f"{scheme}://{name}:{port}/" for name, port in parts for scheme in ("http", "https")][:60]
    statuses = lab.python("subject", BY_THE_INGRESS.format(urls=urls)).split()
    assert len(statuses) == len(urls)
    assert not [(url, how) for url, how in zip(urls, statuses, strict=True) if how[0] in "23"]


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server on this machine, which repeats the path of the request."""

    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/chat":
                return self.switch_and_reset()
            body = f"you asked for {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def switch_and_reset(self) -> None:
            """Switch to a WebSocket, and reset the connection once the client has seen that."""
            self.connection.sendall(SWITCH)
            self.rfile.read(1)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("0.0.0.0", 0), Echo) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_unlisted_host_becomes_link(lab: Lab, server: HTTPServer) -> None:
    url = f"http://host.docker.internal:{server.server_port}/"
    assert lab.python("subject", BY_THE_INGRESS.format(urls=[url])) == "200"
    rows = lab.rows("SELECT link, status FROM found_links")
    assert url.rstrip("/") in {json.loads(link)["upstream"] for link, status in rows if status == "open"}


RAW = """
import json, socket
from concurrent.futures import ThreadPoolExecutor

def answer(data):
    with socket.create_connection(("ingress-proxy", 7100), timeout={patience}) as client:
        received = b""
        try:
            for part in data:
                client.sendall(part.encode())
                if part.startswith("CONNECT"):
                    received += client.recv(4096)
            while part := client.recv(65536):
                received += part
        except OSError:
            pass
        return received.decode("latin-1")

with ThreadPoolExecutor(20) as pool:
    print(json.dumps(list(pool.map(answer, {requests}))))
"""


def raw_answers(lab: Lab, *requests: list[str], patience: float = 60) -> list[str]:
    """The ingress's replies to the parts of each request, until it closes the connection."""
    return list(json.loads(lab.python("subject", RAW.format(requests=list(requests), patience=patience))))


def spellings(address: str) -> list[str]:
    """An IPv4 address as resolvers accept it."""
    number = int(IPv4Address(address))
    first, rest = number >> 24, number & 0xFFFFFF
    return [
        address, str(number), hex(number), f"0{number:o}", f"{first}.{rest}", f"0x{first:x}.{rest}",
        f"[::ffff:{address}]", f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
    ]  # fmt: skip


def test_control_is_unreachable_in_every_spelling(lab: Lab) -> None:
    ports = {"gateway": CONTROL_PORT, "toxiproxy": TOXIPROXY_PORT, "proxy_mgr": MANAGER_PORT}
    networks = {service: lab.container(service)["NetworkSettings"]["Networks"] for service in ports}
    servers = [
        (host, ports[service])
        for service, attached in networks.items()
        for name in attached.keys() & networks["gateway"].keys()  # the gateway dials for the subject
        for host in spellings(attached[name]["IPAddress"])
    ]
    loopback = ["0.0.0.0", "127.1", "[::1]", "[::]", "localhost", *spellings("127.0.0.1")]
    servers += [(host, port) for host in loopback for port in ports.values()]
    get = "GET {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\r\n"
    plain = [[get.format(f"http://{host}:{port}/", host, port)] for host, port in servers]
    tunnels = [
        [f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n", get.format("/", host, port)]
        for host, port in servers
    ]
    answers = raw_answers(lab, *plain, *tunnels)
    assert len(answers) == 2 * len(servers) > 100
    for answer in answers:
        statuses = re.findall(r"HTTP/1\.1 (\d+) (.*)", answer)
        assert statuses, answer
        assert {status for status, text in statuses if "established" not in text} <= {"403", "502"}, answer


def test_invented_hosts_do_not_block_real_host(lab: Lab, server: HTTPServer) -> None:
    invented = [
        [f"GET http://invented-{n}.example/ HTTP/1.1\r\nConnection: close\r\n\r\n"] for n in range(40)
    ]
    raw_answers(lab, *invented)
    url = f"http://host.docker.internal:{server.server_port}/"
    host = {"WIRING": f"{FOLDER}/wirefault.yaml"}
    (lab.folder / "experiments" / "down.yaml").write_text("{faults: [{fault: unavailable}]}")
    assert lab.play("wirefault faults set experiments/down.yaml", **host).returncode == 0
    try:
        assert lab.python("subject", BY_THE_INGRESS.format(urls=[url])) == "503"
    finally:
        assert lab.play("wirefault faults clear", **host).returncode == 0


def test_two_hosts_on_one_connection_are_answered_in_order(lab: Lab, server: HTTPServer) -> None:
    host = f"host.docker.internal:{server.server_port}"
    both = (
        f"GET http://{host}/first HTTP/1.1\r\nHost: {host}\r\n\r\n"
        "GET http://unknown.example/ HTTP/1.1\r\nHost: unknown.example\r\nConnection: close\r\n\r\n"
    )
    [answer] = raw_answers(lab, [both], patience=10)
    assert re.findall(r"HTTP/1\.[01] (\d+)", answer) == ["200", "502"]
    assert answer.index("you asked for /first") < answer.index("502")


@pytest.fixture
def recorded(lab: Lab) -> Iterator[None]:
    """Traffic outside any run is recorded, since faults are set; on a link that these tests do not use."""
    host = {"WIRING": f"{FOLDER}/wirefault.yaml"}
    (lab.folder / "experiments" / "down.yaml").write_text(
        "{faults: [{fault: unavailable, links: calculator}]}"
    )
    assert lab.play("wirefault faults set experiments/down.yaml", **host).returncode == 0
    yield
    assert lab.play("wirefault faults clear", **host).returncode == 0


def live(lab: Lab) -> list[Event]:
    """The records of traffic outside any run."""
    try:
        return read_run(lab.logs, f"{LIVE}compose")
    except HistoryError:  # nothing yet
        return []


@pytest.mark.usefixtures("recorded")
def test_subject_proxy_is_named_as_proxy(lab: Lab, server: HTTPServer) -> None:
    host = f"host.docker.internal:{server.server_port}"
    raw_answers(
        lab,
        [f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", "CONNECT api.example:443 HTTP/1.1\r\n\r\n"],
        patience=10,
    )

    def is_named() -> bool:
        ended = [event for event in live(lab) if isinstance(event, ConnectionEnded)]
        return any("proxy of the agent" in event.why for event in ended)

    until(is_named, **SELDOM)


@pytest.mark.usefixtures("recorded")
def test_reset_upgraded_connection_keeps_status_101(lab: Lab, server: HTTPServer) -> None:
    host = f"host.docker.internal:{server.server_port}"
    request = (
        f"GET http://{host}/chat HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    code = f"""
import socket
with socket.create_connection(("ingress-proxy", 7100), timeout=60) as client:
    client.sendall({request!r}.encode())
    received = b""
    while b"\\r\\n\\r\\n" not in received:
        received += client.recv(4096)
    client.sendall(b"x")
    try:
        print(client.recv(1))
    except ConnectionResetError:
        print(b"")
"""
    assert lab.python("subject", code) == "b''"

    def is_recorded() -> bool:
        return any(isinstance(event, Exchange) and event.status == 101 for event in live(lab))

    until(is_recorded, **SELDOM)


@pytest.mark.parametrize("baggage", ["", "wirefault.run=another,wirefault.episode=e,wirefault.attempt=1"])
def test_subject_baggage_cannot_evade_faults(lab: Lab, baggage: str) -> None:
    host = {"WIRING": f"{FOLDER}/wirefault.yaml"}
    (lab.folder / "experiments" / "down.yaml").write_text("{faults: [{fault: unavailable, links: tools}]}")
    assert lab.play("wirefault faults set experiments/down.yaml", **host).returncode == 0
    code = f"""
import requests
url = "http://proxies:{AT_THE_SUBJECT["calculator"]}/calculate"
print([requests.get(url, headers={{"baggage": {baggage!r}}}, timeout=60).status_code for _ in range(20)])
"""
    try:
        assert json.loads(lab.python("subject", code)) == [503] * 20
    finally:
        assert lab.play("wirefault faults clear", **host).returncode == 0


def test_subject_has_no_lab_files_or_token(lab: Lab) -> None:
    token = lab.python("gateway", "print(open('/run/wirefault/token').read())")
    printed = lab.python("subject", SEARCH.format(reversed=token[::-1]))
    assert printed.splitlines()[-1] == "True False []"


def test_subject_has_certificates_read_only_and_no_key(lab: Lab) -> None:
    code = """
from pathlib import Path
files = sorted(file for file in Path('/wirefault').rglob('*') if file.is_file())
own = [file.name for file in files if file.parent == Path('/wirefault')]
print(own, any(b'PRIVATE KEY' in file.read_bytes() for file in files))
try:
    files[0].write_text('')
except OSError as error:
    print(error.strerror)
"""
    names, refused = lab.python("subject", code).splitlines()
    assert names == "['authority.pem', 'bundle.pem', 'php.ini', 'preload.cjs', 'trust.p12'] False"
    assert refused == "Read-only file system"


def test_wiring_without_interception_ends_ingress_with_one_line(lab: Lab) -> None:
    wiring: Path = lab.folder / FOLDER / "plain.yaml"
    wiring.write_text("links: {calculator: {upstream: lab, port: 5004}}\n")
    done = lab.play(f"docker compose run --rm --no-deps -e WIRING={FOLDER}/plain.yaml ingress")
    assert done.returncode == 1
    assert "plain.yaml intercepts nothing: write `intercept: {}`" in done.stdout + done.stderr


def test_lab_survives_restart_of_ingress(lab: Lab) -> None:
    lab.compose("restart --timeout 3 ingress")
    until(lambda: lab.health("ingress") == "healthy", "a healthy ingress", **SELDOM)
    lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=0 agent")
    assert lab.last_run().outcomes == {"success": 2}
