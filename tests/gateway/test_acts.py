"""What each kind of act does on the wire, and what the ledger says of it."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from tests.gateway.lab import Lab, Upstream, dial, gateway, read_all, read_head, until
from windtunnel.digest import body_digest
from windtunnel.events import FaultMet
from windtunnel.faults import REGISTRY
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.message import Ending, Play, Request, Step, chunk, json_reply
from windtunnel.gateway.modes import MAX_KEPT
from windtunnel.gateway.turn import MAX_READ

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
NATURAL = b'{"n": 1}'


class Scripted(Fault):
    """Does what the test says."""

    name = "scripted"
    family = "http"

    does: str

    def act(self, this: Try) -> Act | Miss | None:
        return DOES[self.does](this)


class Reads(Scripted):
    """The same for one that reads the whole body, and the link's earlier answers."""

    name = "reads"
    needs_body = True
    remembers = True


class Ours(Scripted):
    name = "ours"
    lab_only = True


def fails(*_: object) -> Any:
    raise ZeroDivisionError


class Editor:
    """Doubles the second event; ``ending`` after it."""

    def __init__(self, ending: Ending = "keep") -> None:
        self.ending: Ending = "keep"
        self.then = ending
        self.why_not: Any = "nothing_to_change"
        self.evidence: dict[str, Any] = {}
        self.seen = 0

    def event(self, data: bytes) -> Sequence[Step]:
        self.seen += 1
        if self.seen != 2:
            return (data,)
        self.why_not, self.ending = None, self.then
        self.evidence["doubled"] = 2
        return (data, data)

    def end(self) -> Sequence[Step]:
        return ()


class Waiting(Editor):
    """Says nothing for a minute."""

    def event(self, data: bytes) -> Sequence[Step]:
        self.why_not = None
        return (60.0, data)


def greeting(this: Try) -> Act:
    return Act(request=Request((*this.request.headers, ("X-New", "1")), b"changed", "POST", "/new?b=2"))


DOES: dict[str, Callable[[Try], Act | Miss | None]] = {
    "nothing": lambda this: None,
    "miss": lambda this: Miss("nothing_to_change"),
    "fail": fails,
    "answer": lambda this: Act(answer=json_reply(418, {"a": 1}, {"X-A": "b"}), evidence={"e": 1}),
    "late answer": lambda this: Act(delay=0.03, answer=json_reply(418, {"a": 1})),
    "delay": lambda this: Act(delay=0.05),
    "no delay": lambda this: Act(),
    "cut": lambda this: Act(answer=Play((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfo",), "close")),
    "reset": lambda this: Act(answer=Play((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfo",), "reset")),
    "hang": lambda this: Act(answer=Play((), "hang")),
    "drip": lambda this: Act(
        answer=Play((b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", 0.03, b"k"), "keep")
    ),
    "garbage": lambda this: Act(answer=Play((b"\x00\x01",), "close")),
    "request": greeting,
    "bad request": lambda this: Act(request=Request((("A", "b\r\nC: d"),))),
    "twice": lambda this: Act(copies=2),
    "reply": lambda this: Act(reply=lambda reply: Changed(reply.with_json({"n": 2}), {"was": reply.json()})),
    "reply miss": lambda this: Act(reply=lambda reply: Miss("no_tool_result_to_change")),
    "reply fail": lambda this: Act(reply=fails),
    "lose reply": lambda this: Act(reply=lambda reply: Changed(Play((), "close"))),
    "upper": lambda this: Act(reply=lambda reply: Changed(reply.with_body(reply.body.upper()))),
    "events": lambda this: Act(events=Editor),
    "events cut": lambda this: Act(events=lambda: Editor("close")),
    "events wait": lambda this: Act(events=Waiting),
    "events fail": lambda this: Act(events=fails),
    "earlier": lambda this: Act(answer=this.earlier[0]) if this.earlier else Miss("no_earlier_answer"),
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faults of this file stand in the real registry, so that fault sets can name them."""
    for kind in (Scripted, Reads, Ours):
        monkeypatch.setitem(cast(dict[str, type[Fault]], REGISTRY), kind.name, kind)


def armed(*does: str, links: str = "all", fault: str = "scripted") -> str:
    return json.dumps({"faults": [{"fault": fault, "links": links, "with": {"does": one}} for one in does]})


class Service:
    """An upstream on keep-alive connections: gives ``reply`` (its body, by default) and keeps requests."""

    def __init__(self, reply: bytes | None = None) -> None:
        self.requests: list[bytes] = []
        self.reply = reply or sized(NATURAL)
        self.upstream = Upstream(self._serve)

    def _serve(self, connection: socket.socket) -> None:
        rest = b""
        while True:
            head, rest = read_head(connection, rest)
            length = next(
                (
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            rest += read_all(connection, max(length - len(rest), 0), exactly=True)
            self.requests.append(head + rest[:length])
            rest = rest[length:]
            connection.sendall(self.reply)
            if b"Connection: close" in self.reply:
                return


def sized(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


@pytest.fixture
def service() -> Iterator[Service]:
    one = Service()
    yield one
    one.upstream.close()


@pytest.fixture
def lab(tmp_path: Path, service: Service) -> Iterator[Lab]:
    address = service.upstream.address
    with gateway(tmp_path, search=address, model=address) as lab:
        yield lab


def ask(lab: Lab, link: str = "search", method: str = "GET", **more: Any) -> requests.Response:
    return requests.request(method, lab.url(link, "/a"), headers=lab.identity(), timeout=5, **more)


def only(lab: Lab) -> FaultMet:
    (met,) = lab.exchange().faults
    return met


def test_an_answer_in_the_upstreams_place(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("answer"))
    reply = ask(lab, method="POST", data=b"x" * 10)
    assert (reply.status_code, reply.json(), reply.headers["X-A"]) == (418, {"a": 1}, "b")
    record, met = lab.exchange(), only(lab)
    assert (record.forwarded, record.status, record.reply_complete) == (False, 418, True)
    assert (met.id, met.kind, met.injected, met.why_not) == ("scripted", "scripted", True, None)
    assert (met.shows, met.evidence) == ({"status": 418, "digest": body_digest(reply.content)}, {"e": 1})
    assert service.requests == []


def test_the_answer_to_a_head_has_no_body(lab: Lab) -> None:
    lab.begin(faults=armed("drip"))
    with dial(lab.address("search")) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert read_all(client) == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" * 2


@pytest.mark.parametrize("does", ["nothing", "miss", "no delay", "fail", "reply miss", "reply fail"])
def test_what_changes_nothing_passes_byte_by_byte(lab: Lab, service: Service, does: str) -> None:
    lab.begin(faults=armed(does))
    with dial(lab.address("search")) as client:
        for _ in range(2):
            client.sendall(GET)
            assert read_all(client, len(service.reply)) == service.reply
    record = lab.exchanges(2)[-1]
    expected = {
        "nothing": [],
        "fail": ["failed: ZeroDivisionError"],
        "reply fail": ["failed: ZeroDivisionError"],
        "reply miss": ["no_tool_result_to_change"],
    }
    assert [met.why_not for met in record.faults] == expected.get(does, ["nothing_to_change"])
    assert not any(met.injected or met.shows for met in record.faults)


def test_a_delay_is_added_before_the_request_goes_on(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("delay", "delay"))
    start = time.perf_counter()
    assert ask(lab).content == NATURAL
    taken = (time.perf_counter() - start) * 1000
    one, two = lab.exchange().faults
    assert one.shows == {"delay_ms": one.delay_ms} and one.injected and two.injected
    assert 48 <= one.delay_ms == two.delay_ms and one.delay_ms + two.delay_ms <= taken
    assert lab.exchange().ms >= 98


def test_a_delayed_answer(lab: Lab) -> None:
    lab.begin(faults=armed("late answer"))
    assert ask(lab).status_code == 418
    met = only(lab)
    assert met.delay_ms >= 28 and met.shows and set(met.shows) == {"status", "digest", "delay_ms"}


def test_a_delayed_request_arrives_though_its_client_left(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("delay"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    record = lab.exchange()
    until(lambda: service.requests)
    assert record.forwarded and record.error and record.faults[0].injected


def test_settling_lets_a_delayed_request_go_at_once(lab: Lab, service: Service) -> None:
    DOES["long"] = lambda this: Act(delay=60)
    lab.begin(faults=armed("long"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        until(lambda: lab.control("GET", "/lanes/0").json()["open"])
        lab.settle(0)
        assert read_all(client, len(service.reply)) == service.reply
    assert 0 < only(lab).delay_ms < 5000


@pytest.mark.parametrize(("does", "reset"), [("cut", False), ("reset", True), ("garbage", False)])
def test_a_reply_that_ends_early_is_lost(lab: Lab, does: str, reset: bool) -> None:
    lab.begin(faults=armed(does))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        got = b""
        try:
            while data := client.recv(100):
                got += data
        except ConnectionResetError:
            assert reset
        else:
            assert not reset
    assert got.endswith(b"fo" if does != "garbage" else b"\x01")
    record, met = lab.exchange(), only(lab)
    assert (met.injected, met.shows, record.reply_complete) == (True, {"lost": True}, False)
    assert record.reply_bytes == len(got)


def test_a_hang_lasts_until_the_client_leaves(lab: Lab) -> None:
    lab.begin(faults=armed("hang"))
    with pytest.raises(requests.ReadTimeout):
        requests.get(lab.url("search"), timeout=0.1)
    record, met = lab.exchange(), only(lab)
    assert (met.injected, met.shows, record.status) == (True, {"lost": True}, None)
    assert record.ms == 0


@pytest.mark.parametrize("link", ["search", "model"])
def test_a_hang_ends_with_its_attempt(lab: Lab, link: str) -> None:
    lab.begin(faults=armed("hang"))
    with dial(lab.address(link)) as client:
        client.sendall(GET)
        while lab.settle(60) != {"settled": True, "open": 0}:
            pass
        assert read_all(client) == b""


def test_steps_with_waits(lab: Lab) -> None:
    lab.begin(faults=armed("drip"))
    with requests.Session() as session:
        for _ in range(2):  # the connection goes on
            assert session.get(lab.url("search"), timeout=5).content == b"ok"
    first, second = lab.exchanges(2)
    assert second.reply_complete and first.faults[0].delay_ms >= 28
    assert (first.faults[0].shows or {})["digest"] == body_digest(b"ok")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_changed_request(lab: Lab, service: Service, chunked: bool) -> None:
    lab.begin(faults=armed("request"))
    assert ask(lab, method="PUT", data=iter([b"a", b"b"]) if chunked else b"ab").content == NATURAL
    head, _, body = service.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /new?b=2 HTTP/1.1\r\n") and body == b"changed"
    assert head.count(b"Content-Length: 7") == 1 and b"X-New: 1" in head and b"Windtunnel-World:" in head
    assert b"Transfer-Encoding" not in head
    record, met = lab.exchange(), only(lab)
    assert (record.method, record.target) == ("PUT", "/a")
    assert (met.injected, met.shows, met.content) == (True, None, False)


def test_a_changed_request_that_is_none_is_not_sent(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("bad request"))
    assert ask(lab).content == NATURAL
    assert service.requests[0].startswith(b"GET /a ")
    assert only(lab).why_not == "failed: ValueError"


@pytest.mark.parametrize("reply", [sized(NATURAL), sized(NATURAL, b"Connection: close")])
def test_a_request_that_is_delivered_twice(lab: Lab, service: Service, reply: bytes) -> None:
    service.reply = reply
    lab.begin(faults=armed("twice"))
    assert ask(lab, method="POST", data=b"once").content == NATURAL
    assert len(service.requests) == 2 and service.requests[0] == service.requests[1]
    assert (only(lab).evidence, only(lab).shows) == ({"statuses": [200, 200]}, None)


def test_a_changed_reply(lab: Lab, service: Service) -> None:
    service.reply = sized(NATURAL, b"X-Kept: yes")
    lab.begin(faults=armed("reply"))
    reply = ask(lab)
    assert (reply.json(), reply.headers["X-Kept"]) == ({"n": 2}, "yes")
    assert int(reply.headers["Content-Length"]) == len(reply.content)
    met = only(lab)
    assert (met.shows, met.content) == ({"status": 200, "digest": body_digest(reply.content)}, True)
    assert met.evidence["was"] == {"n": 1} and met.evidence["accept_encoding"]
    assert b"Accept-Encoding: identity" in service.requests[0] and lab.exchange().forwarded


def test_a_lost_reply_was_executed(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("lose reply"))
    with pytest.raises(requests.ConnectionError):
        ask(lab)
    record, met = lab.exchange(), only(lab)
    assert (record.forwarded, record.status, met.shows) == (True, None, {"lost": True})
    assert len(service.requests) == 1


def test_a_compressed_reply_is_read(lab: Lab, service: Service) -> None:
    service.reply = sized(gzip.compress(NATURAL), b"Content-Encoding: gzip")
    lab.begin(faults=armed("reply"))
    reply = ask(lab)
    assert reply.json() == {"n": 2} and "Content-Encoding" not in reply.headers


def test_what_is_compressed_in_another_way_passes(lab: Lab, service: Service) -> None:
    service.reply = sized(b"???", b"Content-Encoding: zstd")
    lab.begin(faults=armed("reply"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply
    assert only(lab).why_not == "unreadable"


CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    b'4;ext=1\r\n{"n"\r\n4\r\n: 1}\r\n0\r\nTrailer: x\r\n\r\n'
)


def test_a_chunked_reply_is_read_and_its_interim_replies_pass(lab: Lab, service: Service) -> None:
    service.reply = CHUNKED
    lab.begin(faults=armed("reply"))
    with dial(lab.address("search")) as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        got = read_all(client)
    assert got.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 Fine\r\n")
    assert got.endswith(b'Content-Length: 8\r\nConnection: close\r\n\r\n{"n": 2}')


TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"


@pytest.mark.parametrize("reply", [CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n", TO_THE_END])
def test_a_reply_that_is_not_changed_passes_byte_by_byte(lab: Lab, service: Service, reply: bytes) -> None:
    service.reply = reply
    lab.begin(faults=armed("reply miss"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(reply)) == reply
        assert lab.exchange().reply_complete and only(lab).why_not == "no_tool_result_to_change"


@pytest.mark.parametrize("does", ["reply", "events"])
@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf", b""]
)
def test_a_reply_that_broke_off_is_not_changed(tmp_path: Path, does: str, reply: bytes) -> None:
    upstream = Upstream(lambda connection: (read_head(connection), connection.sendall(reply)))
    with gateway(tmp_path, search=upstream.address) as lab:
        lab.begin(faults=armed(does))
        with dial(lab.address("search")) as client:
            client.sendall(GET)
            assert read_all(client) == reply
        why_not = "not_a_stream" if reply and does == "events" else "upstream_failed"
        assert only(lab).why_not == why_not and "the upstream closed" in (lab.exchange().error or "")
    upstream.close()


def test_an_upstream_that_is_down_leaves_nothing_to_change(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        lab.begin(faults=armed("reply"))
        assert ask(lab).status_code == 502
        assert (only(lab).why_not, only(lab).shows) == ("upstream_failed", None)


def test_a_reply_that_is_too_large_passes_as_it_is(lab: Lab, service: Service) -> None:
    service.reply = sized(bytes(MAX_KEPT + 1))
    lab.begin(faults=armed("reply"))
    assert len(ask(lab).content) == MAX_KEPT + 1
    assert only(lab).why_not == "too_large"


@pytest.mark.parametrize(
    ("does", "acted", "status"),
    [
        (["answer", "reply"], [None, "already_faulted"], 418),
        (["reply", "answer"], [None, "already_faulted"], 200),
        (["reply miss", "reply", "upper"], ["no_tool_result_to_change", None, "already_faulted"], 200),
        (["miss", "request", "twice"], ["nothing_to_change", None, "already_faulted"], 200),
        (["delay", "answer", "delay"], [None, None, None], 418),
    ],
)
def test_at_most_one_changes_a_try_the_first_in_the_sets_order(
    lab: Lab, does: list[str], acted: list[str | None], status: int
) -> None:
    lab.begin(faults=armed(*does))
    assert ask(lab).status_code == status
    assert [met.why_not for met in lab.exchange().faults] == acted


@pytest.mark.parametrize(
    ("fault", "does", "size", "why_not"),
    [
        ("scripted", "answer", 300_000, None),
        ("scripted", "reply", 300_000, None),
        ("scripted", "delay", 300_000, None),
        ("scripted", "request", 300_000, "too_large"),
        ("scripted", "twice", 300_000, "too_large"),
        ("reads", "request", 300_000, None),
        ("reads", "request", MAX_READ + 1, "too_large"),
        ("reads", "answer", MAX_READ + 1, "too_large"),
    ],
)
def test_how_large_a_request_may_be(
    lab: Lab, service: Service, fault: str, does: str, size: int, why_not: str | None
) -> None:
    lab.begin(faults=armed(does, fault=fault))
    ask(lab, method="PUT", data=bytes(size))
    assert only(lab).why_not == why_not
    if why_not:
        assert service.requests[0].endswith(bytes(size))


EVENTS = [b"data: %d\n\n" % number for number in range(3)]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*events: bytes) -> bytes:
    return STREAM + b"".join(chunk(event) for event in events) + chunk(b"")


def test_an_event_stream_is_changed_event_by_event(tmp_path: Path) -> None:
    go_on = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(STREAM)
        for event in EVENTS:
            connection.sendall(chunk(event[:5]))
            connection.sendall(chunk(event[5:]))
            assert go_on.acquire(timeout=5)
        connection.sendall(chunk(b""))

    upstream = Upstream(serve)
    with gateway(tmp_path, model=upstream.address) as lab:
        lab.begin(faults=armed("events", links="model"))
        with requests.get(lab.url("model"), stream=True, timeout=5) as reply:
            lines = (line for line in reply.iter_lines(chunk_size=1) if line)
            for number in (0, 1, 1, 2):  # the upstream sends the next only once this one has come
                assert next(lines) == b"data: %d" % number
                go_on.release()
            assert list(lines) == []
        met = only(lab)
        assert (met.injected, met.evidence["doubled"], met.content) == (True, 2, True)
        assert (met.shows or {})["digest"] == body_digest(EVENTS[0] + EVENTS[1] * 2 + EVENTS[2])
    upstream.close()


@pytest.mark.parametrize(
    ("does", "expected", "why_not"),
    [
        (["events"], [0, 1, 1, 2], [None]),
        (["reply miss", "events"], [0, 1, 1, 2], ["no_tool_result_to_change", None]),
        (["events", "upper"], [0, 1, 1, 2], [None, "already_faulted"]),
        (["events fail", "events"], [0, 1, 1, 2], ["failed: ZeroDivisionError", None]),
        (["events fail"], [0, 1, 2], ["failed: ZeroDivisionError"]),
    ],
)
def test_faults_of_an_event_stream(
    lab: Lab, service: Service, does: list[str], expected: list[int], why_not: list[str | None]
) -> None:
    service.reply = stream(b"".join(EVENTS))
    lab.begin(faults=armed(*does))
    for number in (1, 2):
        assert ask(lab).content == b"".join(EVENTS[number] for number in expected)
        assert [met.why_not for met in lab.exchanges(number)[-1].faults] == why_not


@pytest.mark.parametrize("does", ["events", "events wait", "reply miss"])
def test_who_does_not_read_an_event_stream_slows_down_its_upstream(tmp_path: Path, does: str) -> None:
    stuck, event = threading.Event(), chunk(b"data: %s\n\n" % (b"x" * 65000))

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(STREAM)
        connection.settimeout(0.3)
        try:
            for _ in range(1000):
                connection.sendall(event)
        except TimeoutError:
            stuck.set()

    upstream = Upstream(serve)
    with gateway(tmp_path, model=upstream.address) as lab:
        lab.begin(faults=armed(does))
        with dial(lab.address("model")) as client:
            client.sendall(GET)
            assert stuck.wait(10)
    upstream.close()


def test_an_event_stream_without_the_event_to_change(lab: Lab, service: Service) -> None:
    service.reply = stream(EVENTS[0], b"data: no end")
    lab.begin(faults=armed("events"))
    assert ask(lab).content == EVENTS[0] + b"data: no end"
    assert only(lab).why_not == "nothing_to_change"


def test_an_editor_can_end_a_stream(lab: Lab, service: Service) -> None:
    service.reply = stream(*EVENTS)
    lab.begin(faults=armed("events cut"))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        ask(lab)
    assert (only(lab).shows, lab.exchange().reply_complete) == ({"lost": True}, False)


def test_a_fault_for_event_streams_needs_one(lab: Lab) -> None:
    lab.begin(faults=armed("events"))
    assert ask(lab).content == NATURAL
    assert only(lab).why_not == "not_a_stream"


def test_earlier_answers_are_kept_for_those_that_remember(lab: Lab, service: Service) -> None:
    lab.begin(faults=armed("earlier", fault="reads"))
    assert ask(lab).content == NATURAL
    service.reply = sized(b'{"n": 3}')
    assert ask(lab).content == NATURAL
    first, second = lab.exchanges(2)
    assert [one.faults[0].why_not for one in (first, second)] == ["no_earlier_answer", None]
    assert (first.forwarded, second.forwarded) == (True, False)


@pytest.mark.parametrize(("links", "status"), [("model", 409), ("tools", 200)])
def test_a_fault_for_the_labs_own_servers_is_refused_elsewhere(lab: Lab, links: str, status: int) -> None:
    elsewhere = {"model": "compatible", "model_base_url": "http://127.0.0.1:9/v1"}
    wanted = lab.new_run(faults=armed("nothing", links=links, fault="ours"), **elsewhere)
    reply = lab.control("PUT", "/lanes/0", wanted)
    assert reply.status_code == status
    assert (
        status == 200
        or "the fault ours is for the lab's own servers only" in reply.json()["error"]["message"]
    )


def test_a_reply_that_is_cut_for_real(lab: Lab) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": "truncate", "with": {"at_byte": 3}}]}))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client).endswith(b"\r\n\r\n" + NATURAL[:3])
    assert (only(lab).evidence["cut_at"], only(lab).shows) == (3, {"lost": True})
