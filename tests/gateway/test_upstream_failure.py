"""The record shows an upstream's own failure, without a fault of the gateway."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from tests.dialects.forms import FORMS, STREAMS, TEXT, Form, events
from tests.gateway.lab import dial, gateway, without_digests
from tests.support import PATIENCE_S, paired
from tests.upstream import Upstream, read_all, read_head, requests_of, whole
from wirefault.dialects.http import JSON_TYPE, Reply, chunk, head_bytes, json_reply, with_data
from wirefault.history.events import Exchange

pytestmark = pytest.mark.usefixtures("transport")

LENGTH = b"Content-Length: 2\r\n\r\nno"
DELAY = {"fault": "delay", "with": {"ms": 5}}
LOST = {"fault": "lose_reply"}
CHAT, CHAT_STREAM = FORMS[:2]
TWICE = {"fault": "duplicate_request"}


def exchange_with(folder: Path, reply: bytes, link: str = "search", *faults: dict[str, object]) -> Exchange:
    """The record of one request to an upstream that gives that reply and closes."""
    entries = [{"links": link, **fault} for fault in faults]
    with (
        Upstream(lambda connection: (read_head(connection), connection.sendall(reply))) as upstream,
        gateway(folder, **{link: upstream.address}) as lab,
    ):
        lab.begin(faults=json.dumps({"faults": entries}) if entries else "")
        with suppress(requests.RequestException):  # the client's error on a broken reply
            requests.get(lab.url(link), headers=lab.identity(link), timeout=PATIENCE_S)
        return lab.exchange()


@pytest.mark.parametrize(
    ("reply", "link", "unavailable"),
    [
        (b"HTTP/1.1 200 OK\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 500 No\r\n" + LENGTH, "search", True),
        (b"HTTP/1.1 503 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 404 No\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 429 No\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 400 No\r\n" + LENGTH, "model", False),
        (b"HTTP/1.1 401 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 408 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 408 No\r\n" + LENGTH, "search", True),
        (b"HTTP/1.1 429 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "search", True),
        (b"", "search", True),
        (b"SSH-2.0-OpenSSH\r\n\r\nhello", "search", True),
    ],
)
def test_upstream_failure_is_recorded(tmp_path: Path, reply: bytes, link: str, unavailable: bool) -> None:
    assert exchange_with(tmp_path, reply, link).unavailable is unavailable


STREAM = (("Content-Type", "text/event-stream"),)
PAGE = b"<html><title>503 Service Unavailable</title></html>"
ERROR = b'{"error":{"message":"Provider returned error","code":502}}'
OUTAGES = {
    "error": (Reply(JSON_TYPE, ERROR), "an error: Provider returned error"),
    "page": (Reply((("Content-Type", "text/html"),), PAGE), "an HTML page: 503 Service Unavailable"),
    "nothing": (Reply(JSON_TYPE), "an empty body"),
    "zipped": (
        Reply((*JSON_TYPE, ("Content-Encoding", "gzip")), gzip.compress(ERROR)),
        "an error: Provider returned error",
    ),
    "damaged": (
        Reply((*JSON_TYPE, ("Content-Encoding", "gzip")), b"{}"),
        "a body that does not match its Content-Encoding",
    ),
}


def exchange_of(folder: Path, form: Form, reply: Reply, *faults: dict[str, object]) -> Exchange:
    """The record of a question in that form to a model with that reply; streams come in chunks."""

    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            pieces = list(reply.events())
            streamed = [head_bytes(reply, None), *map(chunk, pieces), chunk(b"")]
            connection.sendall(b"".join(streamed if pieces else whole(reply)))

    folder.mkdir(exist_ok=True)
    with Upstream(serve) as upstream, gateway(folder, model=upstream.address) as lab:
        lab.begin(faults=json.dumps({"faults": [{"links": "model", **f} for f in faults]}) if faults else "")
        request = form.request()
        headers = {**dict(request.headers), **lab.identity("model")}
        url = lab.url("model", request.target)
        with suppress(requests.RequestException):  # the client's error on a damaged reply
            requests.post(url, data=request.body, headers=headers, timeout=PATIENCE_S)
        return lab.exchange()


@pytest.mark.parametrize(("name", "form"), paired(tuple(OUTAGES), FORMS), ids=str)
def test_outage_with_status_200_is_recorded(tmp_path: Path, form: Form, name: str) -> None:
    reply, how = OUTAGES[name]
    exchange = exchange_of(tmp_path, form, reply)
    assert (exchange.unavailable, exchange.outage) == (True, f"it answered 200 with {how}")


@pytest.mark.parametrize("form", STREAMS, ids=str)
def test_failed_stream_is_recorded(tmp_path: Path, form: Form) -> None:
    parts = [event for event in events(TEXT, form) if form.model_dialect.kind_of(event) == "text"]
    whole_stream = form.reply(TEXT)
    open_end = exchange_of(tmp_path / "open", form, whole_stream.with_body(b"".join(parts[:2])))
    assert open_end.outage.startswith("it answered 200 with a stream that ")
    error = with_data(parts[0], ERROR)
    failed = exchange_of(tmp_path / "failed", form, whole_stream.with_body(parts[0] + error))
    assert failed.outage == "it answered 200 with an error: Provider returned error"


def test_client_leaving_at_error_event(tmp_path: Path) -> None:
    body = b"".join([*events(TEXT, CHAT_STREAM)[:2], b"data: " + ERROR + b"\n\n"])

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(head_bytes(Reply(STREAM), None) + chunk(body))
        connection.recv(1 << 16)
        connection.recv(1)  # until the client has left

    request = CHAT_STREAM.request()
    with Upstream(serve) as upstream, gateway(tmp_path, model=upstream.address) as lab:
        lab.begin()
        url, headers = lab.url("model", request.target), {**dict(request.headers), **lab.identity()}
        with requests.post(url, request.body, headers=headers, stream=True, timeout=PATIENCE_S) as reply:
            assert b"Provider" in next(reply.iter_content(1 << 16))
        exchange = lab.exchange()
    assert not exchange.reply_complete and exchange.outage.endswith("Provider returned error")


def test_reply_may_precede_end_of_request(tmp_path: Path) -> None:
    body = b"".join(events(TEXT, CHAT_STREAM))

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(head_bytes(Reply(STREAM), None) + chunk(body))
        read_all(connection)

    request = CHAT_STREAM.request()
    with Upstream(serve) as upstream, gateway(tmp_path, model=upstream.address, intercepts=False) as lab:
        lab.begin()
        with dial(lab.topology.gateways["model"]) as client:
            head = f"POST {request.target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(request.body)}\r\n\r\n"
            client.sendall(head.encode() + request.body[:-1])
            read_all(client, len(body))
            client.sendall(request.body[-1:])
        exchange = lab.exchange()
    assert exchange.first_token_ms == 0.0


@pytest.mark.parametrize(("status", "outage"), [(503, "it answered 503"), (413, ""), (200, "")])
def test_server_answers_before_end_of_request(tmp_path: Path, status: int, outage: str) -> None:
    reply = b"HTTP/1.1 %d No\r\n" % status + LENGTH

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(reply)
        read_all(connection)

    with Upstream(serve) as upstream, gateway(tmp_path, search=upstream.address, intercepts=False) as lab:
        lab.begin()
        with dial(lab.topology.gateways["search"]) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
            read_all(client, len(reply))
        assert lab.exchange().outage == outage


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_answer_is_not_outage(tmp_path: Path, form: Form) -> None:
    exchange = exchange_of(tmp_path, form, form.reply(TEXT))
    assert (exchange.unavailable, exchange.outage, exchange.reply_complete) == (False, "", True)


def test_fault_error_is_not_outage(tmp_path: Path) -> None:
    fault = {"fault": "malformed", "with": {"kind": "html"}}
    exchange = exchange_of(tmp_path, CHAT, CHAT.reply(TEXT), fault)
    assert exchange.faults[0].injected and not exchange.unavailable
    delayed = exchange_of(tmp_path / "delay", CHAT, OUTAGES["error"][0], DELAY)
    assert delayed.faults[0].injected and delayed.unavailable


def test_provider_message_is_recorded_without_keys(tmp_path: Path) -> None:
    key = "sk-" + "a1" * 20
    exchange = exchange_of(
        tmp_path, CHAT, json_reply(200, {"error": {"message": f"bad key {key}", "code": 500}})
    )
    assert without_digests(exchange.outage) == "it answered 200 with an error: bad key [secret]"


def test_tool_failure_in_200_reply(tmp_path: Path) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
    seen = exchange_with(tmp_path, page)
    assert seen.outage == "it answered 200 with an HTML page: 503 Service Unavailable"


@pytest.mark.parametrize("sends_json", [True, False])
def test_html_page_for_json_client_is_outage(tmp_path: Path, sends_json: bool) -> None:
    page = b"".join(whole(Reply((("Content-Type", "text/html"),), b"<html><title>Sign in</title></html>")))
    with (
        Upstream(lambda connection: [connection.sendall(page) for _ in requests_of(connection)]) as upstream,
        gateway(tmp_path, search=upstream.address) as lab,
    ):
        lab.begin()
        body = {"json": {"item": "tea"}} if sends_json else {"data": "item=tea"}
        requests.post(lab.url("search"), headers=lab.identity("search"), timeout=PATIENCE_S, **body)
        exchange = lab.exchange()
    assert exchange.outage == ("it answered 200 with an HTML page: Sign in" if sends_json else "")
    assert exchange.unavailable is sends_json


def test_invalid_reply_is_upstream_failure_even_if_client_leaves(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\nhello")
        connection.recv(1)  # EOF: the client has seen the reply and left

    with Upstream(serve) as upstream, gateway(tmp_path, search=upstream.address) as lab:
        lab.begin()
        with suppress(requests.RequestException):
            requests.get(lab.url("search"), headers=lab.identity(), timeout=PATIENCE_S)
        assert lab.exchange().unavailable


@pytest.mark.parametrize(
    ("faults", "unavailable"), [([DELAY], True), ([LOST], False), ([TWICE], False), ([DELAY, LOST], False)]
)
def test_fault_beyond_delay_may_be_cause(
    tmp_path: Path, faults: list[dict[str, object]], unavailable: bool
) -> None:
    reply = b"HTTP/1.1 500 No\r\n" + LENGTH
    exchange = exchange_with(tmp_path, reply * 2, "search", *faults)
    assert [hit.injected for hit in exchange.faults] == [True] * len(faults)
    assert exchange.unavailable is unavailable


@pytest.mark.parametrize("link", ["search", "model"])
def test_unreachable_upstream(tmp_path: Path, link: str) -> None:
    with gateway(tmp_path) as lab:
        lab.begin()
        requests.get(lab.url(link), headers=lab.identity(link), timeout=PATIENCE_S)
        assert lab.exchange().unavailable


def test_server_that_closes_as_the_request_asks_gets_both_copies(tmp_path: Path) -> None:
    """It does not name the close in its reply, as Python's ``http.server`` does not."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with (
        Upstream(lambda connection: (read_head(connection), connection.sendall(reply))) as upstream,
        gateway(tmp_path, search=upstream.address) as lab,
    ):
        lab.begin(faults=json.dumps({"faults": [{"links": "search", **TWICE}]}))
        headers = {**lab.identity("search"), "Connection": "close"}
        assert requests.get(lab.url("search"), headers=headers, timeout=PATIENCE_S).text == "ok"
        [fault] = lab.exchange().faults
    assert fault.evidence == {"copies": 2, "statuses": [200, 200]}
