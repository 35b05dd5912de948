"""Recorded replies to writes that never reach a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.dialects.http import Reply, Request, dump_json
from wirefault.gateway.answered_writes import AnsweredWrites, WritesDocument
from wirefault.gateway.endpoint import Endpoint
from wirefault.settings.settings import SettingsError

SHOP = Endpoint("shop.example", 443, b"shop.example", is_lab=False)


def recorded(file: Path, *bodies: dict[str, Any]) -> AnsweredWrites:
    """Record a reply for each of these orders, and answer by them."""
    recording = AnsweredWrites.of(WritesDocument("record", str(file)).dump())
    assert recording is not None
    recorder = recording.endpoint("shop", "POST", "/orders", SHOP).recorder
    assert recorder is not None
    for body in bodies:
        recorder.ask(order())(Reply((("Content-Type", "application/json"),), dump_json(body), 201))
    passed = {"shop": ["POST /search"]}
    answering = AnsweredWrites.of(WritesDocument("answer", str(file), passed).dump())
    assert answering is not None
    return answering


def order(key: str = "", target: str = "/orders") -> Request:
    headers = (("Idempotency-Key", key),) if key else ()
    return Request(headers, b"{}", "POST", target)


def replies(answering: AnsweredWrites, *requests: Request) -> list[Any]:
    player = answering.endpoint("shop", "POST", "/orders", SHOP).player
    assert player is not None
    return [reply and json.loads(reply.body) for reply in map(player.next_reply, requests)]


def test_further_writes_get_next_ids(tmp_path: Path) -> None:
    answering = recorded(tmp_path / "writes", {"id": 7, "order_no": "A-0099", "total": 9, "paid": True})
    assert replies(answering, order(), order(), order()) == [
        {"id": 7, "order_no": "A-0099", "total": 9, "paid": True},
        {"id": 8, "order_no": "A-0100", "total": 9, "paid": True},
        {"id": 9, "order_no": "A-0101", "total": 9, "paid": True},
    ]


def test_replies_keep_recorded_order(tmp_path: Path) -> None:
    answering = recorded(tmp_path / "writes", {"id": 1}, {"id": 5})
    assert replies(answering, order(), order(), order()) == [{"id": 1}, {"id": 5}, {"id": 6}]


def test_same_idempotency_key_gets_same_reply(tmp_path: Path) -> None:
    answering = recorded(tmp_path / "writes", {"id": 1})
    assert replies(answering, order("a"), order("a"), order("b")) == [{"id": 1}, {"id": 1}, {"id": 2}]


def test_unrecorded_write_has_no_reply(tmp_path: Path) -> None:
    assert replies(recorded(tmp_path / "writes", {"id": 1}), order(target="/refunds")) == [None]


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/orders"), ("POST", "/search?q=mug"), ("POST", "/v1/chat/completions")],
)
def test_reads_and_model_requests_reach_their_server(tmp_path: Path, method: str, target: str) -> None:
    assert recorded(tmp_path / "writes").endpoint("shop", method, target, SHOP) is SHOP


def test_unreadable_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="AUDIT_WRITES"):
        AnsweredWrites.of("{}")
