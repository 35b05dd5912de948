"""ERROR_PROB at the gateway: the client gets the drawn error and the upstream no request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.faults.planned_errors import plan_error
from tests.gateway.lab import Lab, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_all, read_head
from wirefault.core.identity import draw, fingerprint
from wirefault.dialects.http import Reply, Request
from wirefault.faults.base import Try
from wirefault.faults.catalogue.http.errors import ERROR_KINDS, HttpError


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_errors_equal_schedule(lab: Lab, method: str) -> None:
    lab.begin(error_prob=0.5, seed=7)
    for number in range(1, 21):
        path, body = f"/echo?n={number}", b'{"n": 1}' if method == "POST" else b""
        key = fingerprint(method, path, body)
        planned = plan_error(7, 0.5, "e1", 1, "search", key, 1, 1)
        reply = requests.request(
            method, lab.url("search", path), data=body, headers=lab.identity(), timeout=PATIENCE_S
        )
        assert reply.status_code == (planned.status if planned else 200)
        record = lab.exchanges(number)[-1]
        assert record.fingerprint == key
        assert [(hit.id, hit.kind, hit.injected, hit.evidence) for hit in record.faults] == (
            [("", planned.kind, True, {"kind": planned.kind, "status": planned.status})] if planned else []
        )
        assert record.forwarded is (planned is None)


def test_every_try_is_drawn_anew(lab: Lab) -> None:
    lab.begin(error_prob=0.5, seed=7)
    key = fingerprint("GET", "/echo")
    for try_ in range(1, 11):
        planned = plan_error(7, 0.5, "e1", 1, "search", key, 1, try_)
        headers = lab.identity(try_=try_)
        status = requests.get(lab.url("search", "/echo"), headers=headers, timeout=PATIENCE_S).status_code
        assert status == (planned.status if planned else 200)


@pytest.mark.parametrize(("code", "status"), ERROR_KINDS)
def test_error_reply(lab: Lab, status: int, code: str) -> None:
    seed = next(s for s in range(100) if drawn_status(s) == status)
    lab.begin(error_prob=1, seed=seed, retry_after=0.25)
    reply = requests.get(lab.url("search", "/x"), headers=lab.identity(), timeout=PATIENCE_S)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
    assert reply.json()["error"]["message"]
    assert reply.headers.get("Retry-After") == ("0.25" if status == 429 else None)
    assert int(reply.headers["Content-Length"]) == len(reply.content)
    record = lab.exchange()
    assert (record.status, record.reply_complete, record.error) == (status, True, None)


def first_answer(seed: int, episode: str = "e1", **parameters: float) -> Reply | None:
    """The fault's answer to the first try of GET /x."""

    def chance(purpose: str) -> float:
        return draw(seed, episode, 1, "search", fingerprint("GET", "/x"), 1, 1, purpose)

    request = Request(target="/x")
    act = HttpError(**parameters).act(Try("search", "tool", request, episode, 1, 1, 1, 1, chance))
    assert act is None or isinstance(act.answer, Reply)
    return act.answer if act else None


@pytest.mark.parametrize(("seconds", "header"), [(0, "0"), (0.2, "0.2"), (30, "30"), (0.00001, "0")])
def test_retry_after_is_plain_number(seconds: float, header: str) -> None:
    seed = next(s for s in range(100) if drawn_status(s) == 429)
    reply = first_answer(seed, chance=1, retry_after=seconds)
    assert reply is not None and reply.header("Retry-After") == header


def drawn_status(seed: int) -> int:
    planned = plan_error(seed, 1, "e1", 1, "search", fingerprint("GET", "/x"), 1, 1)
    assert planned is not None
    return planned.status


@pytest.fixture
def unheard(tmp_path: Path) -> Iterator[Lab]:
    """Every request meets an error; the test fails if the upstream gets one."""
    upstream = Upstream(lambda connection: None)
    with gateway(tmp_path, search=upstream.address, model=upstream.address) as lab:
        lab.begin(error_prob=1)
        yield lab
    upstream.close()
    assert upstream.accepted == 0


@pytest.mark.parametrize("size", [0, 10, 5_000_000])
def test_body_is_read_to_its_end_and_not_forwarded(unheard: Lab, size: int) -> None:
    with requests.Session() as session:
        for _ in range(2):  # the connection stays open
            reply = session.put(unheard.url("search"), data=b"x" * size, timeout=PATIENCE_S)
            assert reply.status_code >= 429
    first, second = unheard.exchanges(2)
    assert first.request_bytes == second.request_bytes > size
    assert (first.call, second.call, first.forwarded) == (1, 2, False)


def test_fingerprint_ignores_chunking(unheard: Lab) -> None:
    requests.post(unheard.url("search"), data=iter([b'{"a"', b": 1}"]), timeout=PATIENCE_S)
    assert unheard.exchange().fingerprint == fingerprint("POST", "/", b'{"a": 1}')


def test_body_of_tiny_chunks_is_bounded(unheard: Lab) -> None:
    tiny = b"1;" + b"x" * 1000 + b"\r\na\r\n"
    with dial(unheard.address("search")) as client:
        client.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + tiny * 3000 + b"0\r\n\r\n")
        assert int(read_head(client)[0].split(b" ")[1]) >= 429
    assert unheard.exchange().request_complete


def test_answer_to_head_has_no_body(unheard: Lab) -> None:
    with dial(unheard.address("search")) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = read_all(client)
    assert reply.endswith(b"\r\n\r\n") and b"Content-Length: " in reply and b"Connection: close" in reply


def test_hundreds_of_pipelined_requests_are_answered_in_order(unheard: Lab) -> None:
    with dial(unheard.address("search")) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1500)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).count(b"HTTP/1.1 ") == 1500
    assert [record.call for record in unheard.exchanges(1500)] == list(range(1, 1501))


def test_fault_does_not_act_when_client_leaves_mid_body(unheard: Lab) -> None:
    with dial(unheard.address("search")) as client:
        client.sendall(b"PUT / HTTP/1.1\r\nContent-Length: 900000\r\n\r\n" + b"x" * 800_000)
    record = unheard.exchange()
    assert (record.status, record.request_complete) == (None, False)
    assert [(hit.injected, hit.why_not) for hit in record.faults] == [(False, "cut_short")]


def test_error_share_follows_setting() -> None:
    hits = sum(first_answer(3, f"e{n}", chance=0.3) is not None for n in range(2000))
    assert 547 <= hits <= 653  # the 99 % interval of the binomial distribution
