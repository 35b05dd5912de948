"""The end of an attempt: idle connections close, unanswered requests are awaited."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.scripted import DOES, GET, STREAM, armed, sized
from tests.support import PATIENCE_S, until
from tests.upstream import Upstream, read_all, read_head
from wirefault.faults.base import Act

REPLY = sized(b'{"n": 1}')
SETTLED = {"settled": True, "open": 0}
NOT_SETTLED = {"settled": False, "open": 1}


class Service:
    """Answers each request with ``reply`` once allowed. ``saw_eof``: the client's half-close came first."""

    def __init__(self) -> None:
        self.reply = REPLY
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[bytes] = []
        self.saw_eof = False
        self.upstream = Upstream(self._serve)

    def _serve(self, connection: socket.socket) -> None:
        rest = b""
        while True:
            head, rest = read_head(connection, rest)
            self.asked.append(head)
            assert self.may_answer.wait(PATIENCE_S)
            self.saw_eof = bool(select.select([connection], [], [], 0)[0])
            connection.sendall(self.reply)


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.may_answer.set()
    service.upstream.close()


@pytest.fixture
def lab(tmp_path: Path, service: Service, transport: str) -> Iterator[Lab]:
    address = service.upstream.address
    with gateway(tmp_path, search=address, model=address) as lab:
        lab.begin()
        yield lab


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def next_attempt(lab: Lab) -> None:
    settings_hash = lab.settings.hash
    wanted = {"run_id": lab.run_id, "episode": "e2", "attempt": 1, "settings_hash": settings_hash}
    assert lab.control("PUT", "/lanes/0", wanted).status_code == 200


def answered(client: socket.socket) -> None:
    client.sendall(GET)
    assert read_all(client, len(REPLY)) == REPLY


@pytest.mark.parametrize("link", ["search", "model"])
def test_keep_alive_connection_is_closed(lab: Lab, link: str) -> None:
    with dial(lab.address(link)) as client:
        answered(client)
        assert lab.settle(0.05) == SETTLED
        assert client.recv(1) == b""


def test_closing_client_settles_at_once(lab: Lab, pool: ThreadPoolExecutor) -> None:
    with dial(lab.address("search")) as client:
        answered(client)
        settling = pool.submit(lab.settle, 60)
        assert client.recv(1) == b""
    assert settling.result(PATIENCE_S) == SETTLED


def _is_ended(lab: Lab) -> bool:
    """Whether an idle connection is ended; with TLS perhaps before its handshake."""
    try:
        with dial(lab.address("search")) as idle:
            return idle.recv(1) == b""
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # the second before Python 3.11.4
        return True


def test_unanswered_request_is_waited_for(lab: Lab, service: Service, pool: ThreadPoolExecutor) -> None:
    service.may_answer.clear()
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        until(lambda: service.asked)
        settling = pool.submit(lab.settle, 60)
        assert _is_ended(lab)  # it is being settled
        assert not settling.done()
        service.may_answer.set()
        assert read_all(client) == REPLY
    assert settling.result(PATIENCE_S) == SETTLED
    assert lab.exchange().reply_complete


def test_outlived_connection_takes_no_request(lab: Lab, service: Service) -> None:
    service.may_answer.clear()
    with dial(lab.address("search")) as client:
        client.sendall(GET + GET)
        until(lambda: service.asked)
        assert lab.settle(0.05) == NOT_SETTLED
        next_attempt(lab)
        service.may_answer.set()
        replies = read_all(client)
    assert replies.startswith(REPLY + b"HTTP/1.1 421 ") and b"open a new one" in replies
    first, second = lab.exchanges(2)
    assert (first.episode, first.status) == ("e1", 200)
    assert (second.episode, second.status, second.forwarded) == ("e1", 421, False)
    assert len(service.asked) == 1


def test_model_connection_serves_next_attempt(lab: Lab, service: Service) -> None:
    service.may_answer.clear()
    with dial(lab.address("model")) as client:
        client.sendall(GET)
        until(lambda: service.asked)
        lab.settle(0.05)
        next_attempt(lab)
        service.may_answer.set()
        assert read_all(client, len(REPLY)) == REPLY
        answered(client)
    assert [record.episode for record in lab.exchanges(2)] == ["e1", "e2"]


def test_unowned_connection_joins_attempt_of_first_request(lab: Lab) -> None:
    lab.settle()
    with dial(lab.address("search")) as client:
        answered(client)  # outside any attempt
        next_attempt(lab)
        answered(client)
        assert lab.settle(0.05, "e2") == SETTLED
    assert [record.episode for record in lab.exchanges()] == ["e2"]


@pytest.mark.parametrize("link", ["search", "model"])
def test_event_stream_is_closed(lab: Lab, service: Service, link: str) -> None:
    service.reply = STREAM
    with dial(lab.address(link)) as client:
        client.sendall(GET)
        assert read_all(client, len(STREAM)) == STREAM
        assert lab.settle(60) == SETTLED
        assert read_all(client) == b""
    assert lab.exchange().error == "the attempt ended, and with it the stream"


def test_tunnel_is_closed(lab: Lab, service: Service) -> None:
    service.reply = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    with dial(lab.address("search")) as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
        assert read_all(client, len(service.reply)) == service.reply
        assert lab.settle(60) == SETTLED
        assert read_all(client) == b""


def test_request_delayed_by_toxic_is_carried_out(
    lab: Lab, service: Service, pool: ThreadPoolExecutor
) -> None:
    """A write delayed by a toxic: the proxy releases it and closes after its client has left."""
    with dial(lab.address("search")) as client:
        settling = pool.submit(lab.settle, 60)
        assert client.recv(1) == b""
        client.sendall(GET)
        client.shutdown(socket.SHUT_WR)
        assert settling.result(PATIENCE_S) == SETTLED
    record = lab.exchange()
    assert len(service.asked) == 1 and record.forwarded
    assert (record.episode, record.status) == ("e1", 200)
    assert record.error == "the client left before its reply was complete"


@pytest.mark.usefixtures("scripted_faults")
def test_settle_waits_for_reply_to_half_closed_client(
    lab: Lab, service: Service, pool: ThreadPoolExecutor
) -> None:
    """An upstream that reads a half-close may close, and still carry out the request."""
    DOES["long"] = lambda tried: Act(delay=60)
    lab.begin(faults=armed("long"))
    service.may_answer.clear()
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        client.shutdown(socket.SHUT_WR)
        until(lambda: lab.control("GET", "/lanes/0").json()["open"])
        settling = pool.submit(lab.settle, 60)
        until(lambda: service.asked)
        assert not settling.done()
        service.may_answer.set()
        assert read_all(client) == REPLY
    assert settling.result(PATIENCE_S) == SETTLED
    assert not service.saw_eof


def test_model_link_outside_attempt_uses_scripted_model(lab: Lab) -> None:
    silent = Upstream(read_head)  # never replies
    lab.begin(model="compatible", model_base_url=silent.address.url)
    with dial(lab.address("model")) as client:
        client.sendall(GET)
        assert read_all(client) == b""
    lab.settle()
    with dial(lab.address("model")) as client:
        answered(client)
    silent.close()
