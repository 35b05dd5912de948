"""The origin of a request: its connection's attempt, refined by baggage with a MAC."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_all, read_head
from wirefault.core.identity import Identity, fingerprint
from wirefault.history.events import LateRequest
from wirefault.history.lines import unlinked
from wirefault.history.reader import parse_line, read_file
from wirefault.history.writer import history_file
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def _serve(connection: socket.socket) -> None:
    while True:
        head, rest = read_head(connection)
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        read_all(connection, size - len(rest), exactly=True)
        connection.sendall(OK)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    upstream = Upstream(_serve)
    with gateway(
        tmp_path_factory.mktemp("identity"),
        search=upstream.address,
        model=upstream.address,
        calendar=upstream.address,
    ) as lab:
        yield lab
    upstream.close()


@pytest.fixture
def lab(shared: Lab) -> Lab:
    shared.settle(0)
    return shared


def test_baggage_names_try(lab: Lab) -> None:
    lab.begin()
    headers = lab.identity(call=3, try_=2)
    assert requests.get(lab.url("search", "/a?b=1"), headers=headers, timeout=PATIENCE_S).text == "ok"
    record = lab.exchange()
    assert (record.episode, record.attempt) == ("e1", 1)
    assert (record.identity, record.call, record.try_) == ("baggage", 3, 2)
    assert (record.method, record.target, record.link) == ("GET", "/a?b=1", "search")
    assert record.fingerprint == fingerprint("GET", "/a?b=1")
    assert (record.status, record.request_complete, record.reply_complete, record.forwarded) == (
        200,
        *[True] * 3,
    )
    assert record.reply_bytes == len(OK) and record.ms > 0 and record.error is None and not record.faults


def test_arrivals_without_baggage_are_counted_by_fingerprint(lab: Lab) -> None:
    lab.begin()
    for path in ("/a", "/b", "/a", "/a"):
        requests.get(lab.url("search", path), timeout=PATIENCE_S)
    identities = [(record.target, record.call, record.try_, record.identity) for record in lab.exchanges(4)]
    assert identities == [
        ("/a", 1, 1, "counted"),
        ("/b", 1, 1, "counted"),
        ("/a", 2, 1, "counted"),
        ("/a", 3, 1, "counted"),
    ]


@pytest.mark.parametrize("link", ["search", "model"])
@pytest.mark.parametrize("named", [False, True])
def test_sdk_marked_retry_is_same_call(lab: Lab, link: str, named: bool) -> None:
    faults = [{"fault": "status", "with": {"status": 500}, "links": link, "when": {"nth": 2}}]
    lab.begin(faults=json.dumps({"faults": faults}))
    passed_on = lab.identity(call=0, try_=0) if named else {}
    statuses = [
        requests.post(
            lab.url(link, "/v1/chat/completions"),
            data=body,
            headers={"x-stainless-retry-count": retry, **passed_on},
            timeout=PATIENCE_S,
        ).status_code
        for body, retry in [
            ("one", "0"),
            ("one", "1"),
            ("two", "0"),
            ("two", "1"),
            ("two", "2"),
            ("three", "0"),
        ]
    ]
    assert statuses == [200, 200, 500, 500, 500, 200]


def _get(lab: Lab, headers: Mapping[str, str], link: str = "search") -> int:
    return requests.get(lab.url(link), headers=headers, timeout=PATIENCE_S).status_code


def _next_episode(lab: Lab) -> None:
    """End the attempt and begin that of episode e2."""
    lab.settle()
    begin = {"run_id": lab.run_id, "episode": "e2", "attempt": 1, "settings_hash": lab.settings.hash}
    assert lab.control("PUT", "/lanes/0", begin).status_code == 200


def test_client_cannot_choose_its_draws(lab: Lab) -> None:
    lab.begin(error_prob=0.5)
    calls = range(1, 13)
    drawn = [_get(lab, lab.identity(call=call)) for call in calls]
    clean = calls[drawn.index(200)]
    assert len(set(drawn)) > 1
    lab.begin(error_prob=0.5)  # the same draws
    assert [_get(lab, lab.identity(signed=False, call=clean)) for _ in calls] == drawn
    assert [record.call for record in lab.exchanges(12)] == list(calls)


@pytest.mark.parametrize("link", ["search", "model"])
@pytest.mark.parametrize("wrong", [{"run": "other"}, {"episode": "e2"}, {"attempt": 2}], ids=str)
@pytest.mark.parametrize("signed", [True, False])
def test_wrong_names_cannot_evade_fault(lab: Lab, link: str, wrong: dict[str, object], signed: bool) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": "status", "with": {"status": 500}, "links": link}]}))
    statuses = {_get(lab, lab.identity(link, signed=signed, **wrong), link) for _ in range(5)}
    records = lab.exchanges(5)
    assert statuses == {500}
    assert {(record.episode, record.attempt, record.identity) for record in records} == {("e1", 1, "counted")}


@pytest.mark.parametrize("link", ["search", "model"])
def test_request_is_not_recorded_in_another_episode(lab: Lab, link: str) -> None:
    lab.begin()
    used = lab.identity(link, call=4)
    _get(lab, used, link)
    _next_episode(lab)
    unsigned = lab.identity(link, signed=False)
    other_key = Identity(lab.run_id, "e1", 1).headers(link, key=b"k" * 32)
    other_link = lab.identity("weather")
    for headers in (unsigned, other_key, other_link, used):  # the last one is a replay
        assert _get(lab, headers, link) == 200
    first, *others = lab.exchanges(5)
    assert (first.episode, first.identity, first.call) == ("e1", "baggage", 4)
    assert [(each.episode, each.identity, each.call) for each in others] == [
        ("e2", "counted", call) for call in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("link", ["search", "model"])
def test_late_request_meets_active_faults_and_keeps_its_attempt(lab: Lab, link: str) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": "status", "with": {"status": 500}, "links": link}]}))
    _next_episode(lab)
    assert _get(lab, lab.identity(link, call=3), link) == 500
    exchange, late = lab.exchanges(2)
    assert (exchange.episode, exchange.attempt, exchange.call, exchange.identity) == ("e1", 1, 3, "late")
    assert [fault.injected for fault in exchange.faults] == [True]
    assert isinstance(late, LateRequest)
    assert (late.episode, late.attempt, late.late_episode, late.late_attempt) == ("e2", 1, "e1", 1)
    assert not late.wrote


@pytest.mark.parametrize(("path", "wrote"), [("/events", True), ("/nothing", False)])
def test_late_request_records_whether_it_wrote(lab: Lab, path: str, wrote: bool) -> None:
    lab.begin()
    _next_episode(lab)
    headers = lab.identity("calendar")
    requests.post(lab.url("calendar", path), json={}, headers=headers, timeout=PATIENCE_S)
    late = lab.exchanges(2)[1]
    assert isinstance(late, LateRequest) and late.wrote == wrote


def test_late_request_between_attempts_is_recorded_in_its_attempt(lab: Lab) -> None:
    lab.begin(error_prob=1)
    lab.settle()
    assert _get(lab, lab.identity(call=2)) == 200
    record = lab.exchange()
    assert (record.episode, record.call, record.identity, record.faults) == ("e1", 2, "late", [])


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Lab]:
    """A lab whose subject is not the lab's own."""
    keys = {"intercept": {}, "subject": {"command": ["true"]}}
    wiring = build_wiring(SpecFile("w.yaml", keys), tmp_path).dump()
    upstream = Upstream(_serve)
    with gateway(tmp_path, wiring=wiring, search=upstream.address, model=upstream.address) as lab:
        yield lab
    upstream.close()


@pytest.mark.parametrize(
    "claims", [{"run": "other"}, {"episode": "e2"}, {"attempt": 2}, {"call": 7, "try_": 9}], ids=str
)
def test_foreign_baggage_is_ignored(foreign: Lab, claims: dict[str, Any]) -> None:
    foreign.begin(error_prob=1)
    for _ in range(2):
        headers = foreign.identity(signed=False, **claims)
        reply = requests.get(foreign.url("search"), headers=headers, timeout=PATIENCE_S)
        assert reply.status_code >= 400  # the fault still acts
    first, second = foreign.exchanges(2)
    assert [(e.episode, e.attempt, e.call, e.try_) for e in (first, second)] == [
        ("e1", 1, 1, 1),
        ("e1", 1, 2, 1),
    ]
    assert {first.identity, second.identity} == {"baggage" if "call" in claims else "counted"}


def test_foreign_subject_cannot_write_to_other_episode(foreign: Lab) -> None:
    foreign.begin()
    headers = foreign.identity(signed=False, episode="e7")
    requests.post(foreign.url("model", "/v1/x"), json={}, headers=headers, timeout=PATIENCE_S)
    assert (foreign.exchange().episode, foreign.exchange().identity) == ("e1", "counted")


def test_broken_baggage_is_ignored(lab: Lab) -> None:
    lab.begin()
    headers = {"baggage": "wirefault.run=x,wirefault.attempt=one,,;="}
    assert requests.get(lab.url("search"), headers=headers, timeout=PATIENCE_S).status_code == 200
    assert lab.exchange().identity == "counted"


def test_requests_outside_attempt_pass_unrecorded(lab: Lab) -> None:
    lab.begin(error_prob=1)
    lab.settle()
    unsigned = lab.identity(signed=False)
    with requests.Session() as session:
        assert session.get(lab.url("search"), headers=unsigned, timeout=PATIENCE_S).status_code == 200
        assert session.get(lab.url("model"), timeout=PATIENCE_S).status_code == 200
    history = history_file(lab.folder / "logs", lab.run_id, "gateway", 0)
    assert list(read_file(history)) == []


def test_model_request_names_its_call(lab: Lab) -> None:
    lab.begin(error_prob=1)  # which is for tools
    with requests.Session() as session:
        for call in (1, 4):
            headers = lab.identity("model", call=call)
            session.post(lab.url("model", "/v1/x"), json={}, headers=headers, timeout=PATIENCE_S)
        session.get(lab.url("model"), timeout=PATIENCE_S)
    identities = [(r.episode, r.attempt, r.call, r.identity, r.fingerprint) for r in lab.exchanges(3)]
    assert identities == [
        ("e1", 1, 1, "baggage", ""),
        ("e1", 1, 4, "baggage", ""),
        ("e1", 1, 1, "counted", ""),
    ]


@pytest.mark.parametrize("error_prob", [0, 1e-12])
@pytest.mark.parametrize(
    "body", [b"", b'{"b": 1, "a": [2]}', b"\xff\x00", b'"' + b"x" * 262_142 + b'"'], ids=len
)
def test_fingerprint_equals_schedule(lab: Lab, body: bytes, error_prob: float) -> None:
    lab.begin(error_prob=error_prob)
    requests.post(lab.url("search", "/x?q=1"), data=body, headers=lab.identity(), timeout=PATIENCE_S)
    assert lab.exchange().fingerprint == fingerprint("POST", "/x?q=1", body)


def test_first_256_kib_of_body_are_fingerprinted(lab: Lab) -> None:
    lab.begin(error_prob=1e-12)
    body = b"x" * 1_000_000
    assert (
        requests.post(lab.url("search"), data=body, headers=lab.identity(), timeout=PATIENCE_S).text == "ok"
    )
    assert lab.exchange().fingerprint == fingerprint("POST", "/", body[: 256 * 1024])


def test_history_line_round_trips(lab: Lab) -> None:
    lab.begin()
    requests.get(lab.url("search", "/'\\x27?q=%C3%A9"), headers=lab.identity(), timeout=PATIENCE_S)
    identities = lab.exchanges()  # the record is written just after the reply has left
    [line] = history_file(lab.folder / "logs", lab.run_id, "gateway", 0).read_bytes().splitlines()
    assert identities == [parse_line(unlinked(line) or b"", Path("gateway-0.jsonl"), 1)]
