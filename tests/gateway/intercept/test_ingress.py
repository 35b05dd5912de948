"""The shipped ingress with real clients: routes of their connections, and its records."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import requests

from tests.gateway.intercept.ingress_lab import IngressLab, ingress_lab, one_way, tunnel
from tests.gateway.intercept.servers import EVENTS, serve_anything
from tests.gateway.intercept.test_arrival import hello_offering
from tests.gateway.lab import ask, dial
from tests.support import PATIENCE_S, until
from tests.upstream import Upstream, read_all, read_head
from wirefault.core.sockets import Address
from wirefault.core.spans import Span
from wirefault.history.events import WentPastLab
from wirefault.lab.process import LabError
from wirefault.toxiproxy.planned import PlannedToxic

pytestmark = pytest.mark.slow

GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


def body_of(client: socket.socket, request: bytes) -> bytes:
    """The bytes of that request that the server received and echoed."""
    client.sendall(request)
    head, rest = read_head(client)
    size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    return rest + read_all(client, size - len(rest), exactly=True)


def test_new_host_becomes_link(lab: IngressLab, anything: Address) -> None:
    with requests.Session() as session:
        session.proxies = lab.proxies
        reply = session.post(anything.url + "/echo", data="hello", timeout=PATIENCE_S)
    assert reply.text.startswith("POST /echo HTTP/1.1\r\n") and reply.text.endswith("hello")
    (ended,) = lab.ended()
    assert ended.link == f"port_{anything.port}"
    assert (ended.episode, ended.attempt, ended.tap, ended.tunnelled) == ("e1", 1, "proxy", False)
    assert ended.first_byte_ms is not None and 0 < ended.first_byte_ms <= ended.ms
    (exchange,) = lab.exchanges()
    assert (exchange.link, exchange.status) == (ended.link, 200)


def test_request_reaches_server_unchanged_but_for_host(lab: IngressLab, anything: Address) -> None:
    request = b"PUT /a?b=c HTTP/1.1\r\nhost: shop.test\r\nX-Odd:   y \r\nContent-Length: 2\r\n\r\nok"
    with one_way(lab, "shop.test", 80) as client:
        received = body_of(client, request)
    assert received == request.replace(b"host: shop.test", b"host: " + str(anything).encode())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_tunnel_to_wired_host_uses_its_link(lab: IngressLab, tls: bool, tmp_path: Path) -> None:
    pem = tmp_path / "authority.pem"
    pem.write_text(lab.authority())
    trusting = ssl.create_default_context(cafile=pem)
    with tunnel(lab, "shop.test", 443) as plain:
        client = trusting.wrap_socket(plain, server_hostname="shop.test") if tls else plain
        with client:
            assert body_of(client, GET).startswith(b"GET /x HTTP/1.1\r\n")
    (ended,) = lab.ended()
    assert (ended.link, ended.host, ended.tls, ended.how) == ("shop", "shop.test", tls, "fin")


def test_curl_reuses_connection_for_several_hosts(
    lab: IngressLab, anything: Address, flask_upstream: Address
):
    urls = [f"{address.url}/echo" for address in (anything, flask_upstream, anything)]
    command = [
        "curl",
        "-sSv",
        "--max-time",
        str(int(PATIENCE_S)),
        "--proxy",
        lab.ingress.url,
        "--noproxy",
        "",
        *urls,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(re.findall("(?i)re-?using existing", done.stderr)) == 2
    ports = [anything.port, flask_upstream.port, anything.port]
    assert [ended.link for ended in lab.ended()] == [f"port_{port}" for port in ports]


def test_refused_host_gets_reason(lab: IngressLab) -> None:
    with pytest.raises(httpx.ProxyError, match="403"), httpx.Client(proxy=lab.ingress.url) as client:
        client.get("https://refused.test/", timeout=PATIENCE_S)
    assert requests.get("http://refused.test/", proxies=lab.proxies, timeout=PATIENCE_S).status_code == 403
    with one_way(lab, "refused.test", 443) as client, pytest.raises(ConnectionResetError):
        client.recv(1)
    ended = lab.ended()
    assert [(one.how, one.ended_by, one.link) for one in ended] == [("refused", "proxy", "")] * 3
    assert {one.why for one in ended} == {"--refuse names it"}


def test_passed_host_is_tunnelled_and_counted(lab: IngressLab, past: Address) -> None:
    with tunnel(lab, "localhost", past.port) as client:
        assert body_of(client, GET).startswith(b"GET /x ")
    (ended,) = lab.ended()
    assert (ended.link, ended.tunnelled, ended.sent) == ("", True, len(GET))
    assert ended.received > len(GET) and ended.why == "--pass names it"


def test_other_protocols_are_tunnelled(lab: IngressLab) -> None:
    def reverse(connection: socket.socket) -> None:
        connection.sendall(connection.recv(100)[::-1])

    with Upstream(reverse) as upstream, one_way(lab, "127.0.0.1", upstream.address.port) as client:
        client.sendall(b"\x00abc")
        assert read_all(client) == b"cba\x00"
    assert "neither HTTP nor TLS" in lab.ended()[0].why


@pytest.mark.parametrize("first", ["preface", "hello"])
def test_http2_only_client_is_tunnelled_and_reported(lab: IngressLab, first: str) -> None:
    start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if first == "preface" else hello_offering("h2")

    def serve(connection: socket.socket) -> None:
        assert read_all(connection, len(start), exactly=True) == start
        connection.sendall(b"frames")
        read_all(connection)

    with Upstream(serve) as upstream:
        for _ in range(2):  # a new host, and one that has a link already
            with tunnel(lab, upstream.address.host, upstream.address.port) as client:
                client.sendall(start)
                assert read_all(client, 6) == b"frames"
        ended = lab.ended()
        past = [event for event in lab.of_ingress() if isinstance(event, WentPastLab)]
    assert len(ended) == len(past) == 2
    for each in ended:
        assert (each.tunnelled, each.sent, each.received, each.link) == (True, len(start), 6, "")
        assert "speaks only HTTP/2" in each.not_intercepted and "--pass" in each.not_intercepted
    for one in past:
        assert (one.only_http2, one.sent, one.received, one.link) == (True, len(start), 6, "")


def test_agent_proxy_is_named_as_proxy(lab: IngressLab, past: Address) -> None:
    def own_proxy(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with Upstream(own_proxy) as upstream, one_way(lab, "127.0.0.1", upstream.address.port) as client:
        client.sendall(b"CONNECT api.test:443 HTTP/1.1\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200")
    assert "proxy of the agent" in lab.ended()[0].why


def test_pipelined_requests_for_two_hosts_are_answered_in_order(
    lab: IngressLab, anything: Address, past: Address
) -> None:
    requests_ = b"".join(
        b"GET http://%s/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (str(address).encode(), number)
        for number, address in enumerate([anything, past, anything], 1)
    )
    with dial(lab.ingress) as client:
        client.sendall(requests_)
        received = b""
        while received.count(b"GET /") < 3:
            received += client.recv(65536)
    assert re.findall(rb"GET /(\d)", received) == [b"1", b"2", b"3"]


def test_server_speaks_first(lab: IngressLab) -> None:
    def speak_first(connection: socket.socket) -> None:
        connection.sendall(b"220 hello\r\n")
        connection.sendall(connection.recv(100))

    with Upstream(speak_first) as upstream, tunnel(lab, "127.0.0.1", upstream.address.port) as client:
        assert read_all(client, 11) == b"220 hello\r\n"
        client.sendall(b"QUIT")
        assert read_all(client) == b"QUIT"
    assert "speaks first" in lab.ended()[0].why


def test_slow_client_is_not_tunnelled(lab: IngressLab) -> None:
    with (
        Upstream(lambda connection: connection.recv(1)) as silent,
        one_way(lab, "127.0.0.1", silent.address.port) as client,
    ):
        until(lambda: silent.accepted, "the ingress to listen for the server's greeting")
        client.sendall(GET)
        until(lambda: silent.accepted == 2, "the request on the link")
    assert lab.ended()[0].link == f"port_{silent.address.port}"


@pytest.mark.parametrize(
    "asks", [b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"nonsense\r\n\r\n", b"CONNECT x\r\n\r\n"]
)
def test_invalid_proxy_request_gets_400(lab: IngressLab, asks: bytes) -> None:
    assert ask(lab.ingress, asks).startswith(b"HTTP/1.1 400 ")


def test_tunnel_to_ingress_is_refused(lab: IngressLab) -> None:
    raw_request = f"CONNECT localhost:{lab.ingress.port} HTTP/1.1\r\n\r\n".encode()
    assert ask(lab.ingress, raw_request).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "[::ffff:127.0.0.1]"]
)
@pytest.mark.parametrize("part", ["control", "manager", "toxiproxy", "gateway"])
def test_own_servers_are_refused_in_every_spelling(lab: IngressLab, host: str, part: str) -> None:
    topology = lab.lab.topology
    servers = {
        "control": topology.control,
        "manager": topology.manager,
        "toxiproxy": Address.parse(topology.toxiproxy.partition("://")[2]),
        "gateway": topology.gateways["shop"],
    }
    connect = f"CONNECT {host}:{servers[part].port} HTTP/1.1\r\n\r\n".encode()
    assert ask(lab.ingress, connect).startswith(b"HTTP/1.1 403 Forbidden")
    assert lab.ended()[0].why == "it is the lab's own"


def test_only_manager_settles(lab: IngressLab) -> None:
    assert b" 403 " in ask(lab.ingress, b"POST /settle HTTP/1.1\r\n\r\n")


def test_link_down_gives_502_or_reset(
    lab_of_session: IngressLab,
) -> None:
    lab = lab_of_session
    lab.begin("down", plan=[PlannedToxic("shop", "down", "", {})])
    try:
        assert ask(lab.ingress, b"CONNECT shop.test:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 502 ")
        with one_way(lab, "shop.test", 443) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        refused = ("shop", "refused", "")
        until(lambda: [(one.link, one.how, one.why) for one in lab.ended()] == [refused] * 2)
    finally:
        lab.end()


def test_unaccepted_connection_is_recorded(lab_of_session: IngressLab) -> None:
    lab = lab_of_session
    lab.begin("unaccepted", plan=[PlannedToxic("shop", "unaccepted", "downstream", {})])
    try:
        with one_way(lab, "shop.test", 80) as client, pytest.raises(TimeoutError):
            client.sendall(GET)
            client.settimeout(0.3)
            client.recv(1)
        assert [(one.link, one.ended_by, one.how) for one in lab.ended()] == [
            ("shop", "client", "unaccepted")
        ]
    finally:
        lab.end()


def test_proxy_cannot_resolve_name(lab_of_session: IngressLab) -> None:
    lab = lab_of_session
    lab.begin("unresolved", plan=[PlannedToxic("shop", "unresolved", "downstream", {"code": 2})])
    try:
        reply = ask(lab.ingress, b"CONNECT shop.test:443 HTTP/1.1\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 502 ") and b"shop.test cannot be resolved" in reply
        plain = requests.get("http://shop.test/", proxies=lab.proxies, timeout=PATIENCE_S)
        assert plain.status_code == 502
        ended = lab.ended()
        assert [(one.link, one.how, one.ended_by) for one in ended] == [("shop", "unresolved", "proxy")] * 2
    finally:
        lab.end()


def test_name_resolves_before_and_after_its_outage(lab_of_session: IngressLab) -> None:
    lab = lab_of_session
    span = Span(start=60.0, duration=60.0)
    lab.begin("later", plan=[PlannedToxic("shop", "unresolved", "downstream", {"code": 2}, during=span)])
    try:
        with tunnel(lab, "shop.test", 443):
            pass
        assert [one.how for one in lab.ended()] == ["fin"]
    finally:
        lab.end()


def test_proxy_reset_passes(lab_of_session: IngressLab) -> None:
    lab = lab_of_session
    lab.begin("reset", plan=[PlannedToxic("shop", "reset_peer", "downstream", {"timeout": 0})])
    try:
        with one_way(lab, "shop.test", 80) as client, pytest.raises(ConnectionResetError):
            client.sendall(GET)
            client.recv(1)
        assert [(one.ended_by, one.how) for one in lab.ended()] == [("proxy", "rst")]
    finally:
        lab.end()


def test_open_connection_is_recorded_as_open(lab: IngressLab, past: Address) -> None:
    with tunnel(lab, "localhost", past.port) as client:
        body_of(client, GET)
        (ended,) = lab.ended()
        assert (ended.ended_by, ended.how) == ("neither", "open")


def test_client_reset_leaves_nothing_behind(lab: IngressLab) -> None:
    with Upstream(lambda connection: connection.recv(1 << 16) and connection.recv(1)) as upstream:
        client = tunnel(lab, "127.0.0.1", upstream.address.port)
        client.sendall(GET)
        until(lambda: upstream.accepted)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        (ended,) = lab.ended()
    assert (ended.ended_by, ended.how) == ("client", "rst")


# passes untouched while no fault is armed


def test_websocket_untouched(lab: IngressLab) -> None:
    from websockets.sync.client import connect

    with connect("ws://shop.test/ws", proxy=lab.ingress.url, open_timeout=PATIENCE_S) as client:
        client.send("abc")
        assert client.recv(PATIENCE_S) == "abc"
    assert lab.ended()[0].link == "shop"


def test_event_stream_passes_unchanged(lab: IngressLab) -> None:
    with httpx.Client(proxy=lab.ingress.url) as client:
        assert client.get("http://shop.test/events", timeout=PATIENCE_S).content == b"".join(EVENTS)


def test_http_1_0_and_expect_continue(lab: IngressLab) -> None:
    with one_way(lab, "shop.test", 80) as client:
        client.sendall(b"GET /digest HTTP/1.0\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 OK\r\n")
    raw_request = (
        b"POST http://shop.test/digest HTTP/1.1\r\nHost: shop.test\r\n"
        b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    )
    with dial(lab.ingress) as client:
        client.sendall(raw_request)
        client.sendall(b"x")
        assert read_head(client)[0].startswith(b"HTTP/1.1 200 OK\r\n")


def test_large_upload(lab: IngressLab) -> None:
    body = os.urandom(24 << 20)
    with httpx.Client(proxy=lab.ingress.url) as client:
        digest = client.post("http://shop.test/digest", content=body, timeout=PATIENCE_S).text
    assert digest == hashlib.sha256(body).hexdigest()
    assert lab.ended()[0].sent > len(body)


def test_fifty_parallel_connections(lab: IngressLab) -> None:
    async def ask_all() -> list[int]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(proxy=lab.ingress.url, limits=limits, timeout=PATIENCE_S) as client:
            replies = await asyncio.gather(*(client.get(f"http://shop.test/{n}") for n in range(100)))
            return [reply.status_code for reply in replies]

    assert asyncio.run(ask_all()) == [200] * 100
    assert sum(ended.sent > 0 for ended in lab.ended()) >= 2


# the process


def test_concurrent_clients_share_new_link(lab: IngressLab) -> None:
    with Upstream(serve_anything) as upstream:

        def status(_: int) -> int:
            return requests.get(upstream.address.url, proxies=lab.proxies, timeout=PATIENCE_S).status_code

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(status, range(8))) == [200] * 8
    assert {ended.link for ended in lab.ended()} == {f"port_{upstream.address.port}"}


def test_ingress_has_no_key_and_its_death_ends_lab(tmp_path: Path) -> None:
    with ingress_lab(tmp_path, environ={"GROQ_API_KEY": "gsk-not-a-key"}) as lab:
        pid = lab.lab.pids()["ingress"]
        assert b"not-a-key" not in Path(f"/proc/{pid}/environ").read_bytes()
        os.kill(pid, signal.SIGKILL)
        until(lambda: lab.lab.dead())
        with pytest.raises(LabError, match="ingress was killed by signal 9"):
            lab.lab.check()


def test_offline_refuses_other_hosts(tmp_path: Path) -> None:
    with ingress_lab(tmp_path, {"offline": True, "pass": ["*.example"]}) as lab:
        lab.begin("offline")
        refused = ask(lab.ingress, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 403 ") and b"--offline" in refused
        egress = lab.lab.topology.egress
        assert egress is not None
        assert b"this lab is offline" in ask(egress, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        with Upstream(lambda connection: connection.sendall(b"hi")) as here:
            assert b"hi" in ask(egress, f"CONNECT {here.address} HTTP/1.1\r\n\r\n".encode())
        lab.end()
