"""Fields of an exchange about the wire: writes, keys, credentials, retries, bodies, upstream status."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import gateway
from tests.gateway.scripted import ScriptedUpstream, armed, ask, sized
from tests.support import PATIENCE_S
from wirefault.core.identity import text_digest
from wirefault.core.redaction import Redaction
from wirefault.history.events import Exchange
from wirefault.wiring.links import Link, Links

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def shop(tmp_path: Path, service: ScriptedUpstream) -> Any:
    """A gateway with a shop on its search link."""
    writes = ("POST /orders", "DELETE /orders/*")
    link = Link("search", upstream=service.upstream.address.url, writes=writes, key="id")
    with gateway(tmp_path, links=Links([link])) as lab:
        yield lab


def order(shop: Any, method: str = "POST", path: str = "/orders", **more: Any) -> Exchange:
    """Return the record of that request."""
    before = len(shop.recorded())
    requests.request(method, shop.url("search", path), timeout=PATIENCE_S, **more)
    exchange: Exchange = shop.exchanges(before + 1)[-1]
    return exchange


def test_declared_write_matches_method_and_path(shop: Any) -> None:
    shop.begin()
    assert order(shop, path="/orders?dry=1").write
    assert order(shop, "DELETE", "/orders/7").write
    assert not order(shop, "GET").write
    assert order(shop).dialect == "http"


def test_first_request_of_a_connection_says_when_it_was_opened(shop: Any) -> None:
    shop.begin()
    with requests.Session() as session:
        for path in ("/first", "/second"):
            session.get(shop.url("search", path), timeout=PATIENCE_S)
    first, second = shop.exchanges(2)
    assert first.opened_ms >= 0 and second.opened_ms is None


def test_write_key_comes_from_header_or_named_field(shop: Any) -> None:
    shop.begin()
    assert order(shop, json={"id": 7}).key == "7"
    assert order(shop, json={"id": 7}, headers={"Idempotency-Key": "k"}).key == "k"
    assert order(shop, json=["id"]).key == ""


@pytest.mark.parametrize("key", [f"1{'0' * 5000}", "true", "null", "[1]", '"\\ud800"'])
def test_invalid_key_is_ignored(shop: Any, key: str) -> None:
    shop.begin()
    assert order(shop, data=f'{{"id": {key}}}').key == ""


@pytest.mark.parametrize("text", ["soon", "Mon, 01 Jan 0001 00:00:00 -2300", "nan", ""])
def test_invalid_retry_after_is_ignored(shop: Any, service: ScriptedUpstream, text: str) -> None:
    service.reply = sized(b"{}", f"Retry-After: {text}".encode()).replace(b"200 OK", b"429 No")
    shop.begin()
    assert order(shop).retry_after in (None, 0.0)


@pytest.mark.parametrize("part", ["eyJ-", "eyJa.", "Bearer ", "Bearer aaaa ", "task-"])
def test_long_body_resembling_tokens_is_unchanged(part: str) -> None:
    text = part * (65536 // len(part))
    assert Redaction().text(text) == text


@pytest.mark.parametrize(
    ("header", "recorded"),
    [
        (TRACE, TRACE),
        (f"{TRACE}-more", ""),
        (TRACE.upper(), ""),
        ("00-secret", ""),
    ],
)
def test_valid_trace_context_is_recorded(shop: Any, header: str, recorded: str) -> None:
    shop.begin()
    assert order(shop, headers={"traceparent": header}).traceparent == recorded


def test_credential_is_recorded_as_digest(shop: Any) -> None:
    secret = "s3cret-that-nobody-may-read"
    shop.begin()
    ways = [
        {"headers": {"Authorization": f"Bearer {secret}"}},
        {"headers": {"x-api-key": secret}, "data": f"my key is {secret}"},
        {"path": f"/orders?key={secret}&a=b"},
    ]
    [digest] = {order(shop, **way).credential for way in ways}
    assert digest and digest != text_digest(secret).hex()  # salted
    assert secret not in "".join(map(repr, shop.recorded()))
    assert re.fullmatch(r"/orders\?key=\[secret:[g-v]{16}\]&a=b", shop.exchange().target)


def test_sdk_retry_counts_are_recorded(shop: Any) -> None:
    shop.begin()
    assert order(shop, headers={"x-stainless-retry-count": "2"}).sdk_retry == 2
    assert order(shop, headers={"amz-sdk-request": "attempt=2; max=3"}).sdk_retry == 1
    assert order(shop).sdk_retry is None


def test_operation_of_aws_is_recorded(shop: Any) -> None:
    shop.begin()
    assert order(shop, headers={"X-Amz-Target": "Shop_2012.PutItem"}).operation == "Shop_2012.PutItem"
    assert order(shop).operation == ""


@pytest.mark.parametrize(("header", "seconds"), [("Retry-After: 3", 3.0), ("retry-after-ms: 1500", 1.5)])
def test_retry_after_is_recorded(shop: Any, service: ScriptedUpstream, header: str, seconds: float) -> None:
    service.reply = sized(b"{}", header.encode()).replace(b"200 OK", b"429 Too Many Requests")
    shop.begin()
    assert order(shop).retry_after == seconds


def test_bodies_are_recorded_at_client_side(shop: Any, service: ScriptedUpstream) -> None:
    body = gzip.compress(b'{"ordered": "tea"}')
    service.reply = sized(body, b"Content-Encoding: gzip")
    shop.begin()
    exchange = order(shop, data=json.dumps({"item": "tea"}))
    assert (exchange.request_body, exchange.reply_body) == ('{"item": "tea"}', '{"ordered": "tea"}')
    assert not exchange.request_cut
    assert not exchange.reply_cut


def test_long_body_is_cut_and_binary_one_is_length(shop: Any, service: ScriptedUpstream) -> None:
    service.reply = sized(b"\xff\x00" * 4)
    shop.begin()
    exchange = order(shop, data="x" * 100_000)
    assert (len(exchange.request_body or ""), exchange.request_cut) == (65536, True)
    assert (exchange.reply_body, exchange.reply_cut) == ("[binary, 8 bytes]", True)


@pytest.mark.parametrize(
    "secret", ["sk-abcdefghijklmnop1234", "AIza" + "x" * 35, "Bearer abc.def-123456", "ghp_" + "a1" * 15]
)
def test_keys_are_redacted_from_records(shop: Any, secret: str) -> None:
    shop.begin()
    exchange = order(shop, json={"note": f"use {secret} for it"})
    assert secret.split()[-1] not in (exchange.request_body or "")
    assert re.search(r"\[secret:[g-v]{16}\] for it", exchange.request_body or "")


def test_plain_words_are_not_redacted(shop: Any) -> None:
    note = "Basic internationalization of the bearer certificates at low risk-management"
    shop.begin()
    assert order(shop, data=note).request_body == note


def test_bodies_off_records_no_bodies(shop: Any) -> None:
    shop.begin(bodies="off")
    exchange = order(shop, json={"id": 7})
    assert (exchange.request_body, exchange.reply_body, exchange.key) == (None, None, "7")


@pytest.mark.parametrize(
    ("fault", "status", "upstream_status"),
    [("lose reply", None, 200), ("answer", 418, None), ("upper", 200, None), ("nothing", 200, None)],
)
def test_upstream_and_client_status_are_recorded(
    lab_of_service: Any, scripted_faults: None, fault: str, status: int | None, upstream_status: int | None
) -> None:
    lab_of_service.begin(faults=armed(fault))
    try:
        ask(lab_of_service)
    except requests.ConnectionError:
        assert fault == "lose reply"
    exchange = lab_of_service.exchange()
    assert (exchange.status, exchange.upstream_status) == (status, upstream_status)
    assert exchange.answered == (None if fault == "answer" else 200)


def test_recorded_body_is_faulted_one(lab_of_service: Any, scripted_faults: None) -> None:
    lab_of_service.begin(faults=armed("upper"))
    ask(lab_of_service)
    assert lab_of_service.exchange().reply_body == '{"N": 1}'


def test_request_that_met_a_fault_names_its_client(tmp_path: Path, service: ScriptedUpstream) -> None:
    link = Link("search", upstream=service.upstream.address.url)
    faults = {"faults": [{"fault": "rate_limit", "only": {"path": "/orders"}}]}
    with gateway(tmp_path, links=Links([link])) as lab:
        lab.begin(faults=faults)
        assert order(lab, headers={"User-Agent": "python-httpx/0.28.1"}).client == "python-httpx/0.28.1"
        assert order(lab, path="/prices", headers={"User-Agent": "node"}).client == ""
