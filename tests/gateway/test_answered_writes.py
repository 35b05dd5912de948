"""Recorded replies to writes that never reach a server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab
from tests.gateway.test_after_write import shop_lab
from wirefault.core.redaction import Redaction
from wirefault.dialects.http import Reply, Request, dump_json, json_reply
from wirefault.gateway.answered_writes import (
    NOT_KEPT,
    NOT_RECORDED,
    AnsweredWrites,
    WritesDocument,
    without_secrets,
)
from wirefault.gateway.endpoint import Endpoint, Player
from wirefault.settings.settings import SettingsError
from wirefault.wiring.links import Link

SHOP = Endpoint("shop.example", 443, b"shop.example", is_lab=False)
SHOP_LINK = Link("shop", "https://shop.example")


def chosen(
    document: WritesDocument, call: str, link: Link = SHOP_LINK, *, may_write: bool = True
) -> Endpoint:
    writes = AnsweredWrites.of(document.dump())
    assert writes is not None
    return writes.endpoint(link, call, SHOP, may_write=may_write)


def record(file: Path, *bodies: dict[str, Any]) -> None:
    """Record a reply for each of these orders."""
    recorder = chosen(WritesDocument("record", str(file)), "POST /orders").recorder
    assert recorder is not None
    file.touch()
    for body in bodies:
        recorder.ask(order())(Reply((("Content-Type", "application/json"),), dump_json(body), 201))


def recorded(file: Path, *bodies: dict[str, Any]) -> Player:
    """Record a reply for each of these orders; return the player that answers by them."""
    record(file, *bodies)
    player = chosen(WritesDocument("answer", str(file)), "POST /orders").player
    assert player is not None
    return player


def order(key: str = "", target: str = "/orders") -> Request:
    headers = (("Idempotency-Key", key),) if key else ()
    return Request(headers, b"{}", "POST", target)


def replies(player: Player, *requests: Request) -> list[Any]:
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


def test_reads_reach_their_server(tmp_path: Path) -> None:
    (tmp_path / "writes").touch()
    document = WritesDocument(
        "answer", str(tmp_path / "writes"), writes=("GET /fire",), reads=("POST /find",)
    )
    assert chosen(document, "GET /orders", may_write=False) is SHOP
    assert chosen(document, "POST /find") is SHOP
    assert chosen(document, "GET /fire", may_write=False).player is not None


@pytest.mark.parametrize(
    ("upstream", "answered"),
    [
        ("http://127.0.0.1:9000", False),
        ("http://Shop.Test.:80", False),
        ("http://shop.localhost:9000", False),
        ("http://shop.local", True),
        ("http://nottest", True),
        ("https://api.pager.example", True),
    ],
)
def test_local_writes_are_carried_out_if_only_others_are_answered(upstream: str, answered: bool) -> None:
    endpoint = chosen(WritesDocument("answer", "", only_beyond=True), "POST /alerts", Link("it", upstream))
    assert (endpoint.player is not None) is answered
    assert endpoint.player is None or endpoint.player.next_reply(order(target="/alerts")) is None


def test_kept_replies_answer_after_the_lab_has_gone(tmp_path: Path) -> None:
    file, copy = tmp_path / "writes", tmp_path / "copy"
    record(file, {"id": 7}, {"id": 8, "access_token": "s3cret-s3cret-s3cret"})
    text, hidden = without_secrets(file.read_bytes(), Redaction())
    copy.write_bytes(text)
    assert hidden == 1 and b"s3cret" not in base64.b64decode(json.loads(text.splitlines()[0])["body"]) + text
    file.unlink()
    player = chosen(WritesDocument("answer", str(file), str(copy)), "POST /orders").player
    assert player is not None
    assert replies(player, order(), order()) == [{"id": 7}, None]
    assert player.not_recorded == NOT_KEPT


def test_missing_replies_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="missing"):
        AnsweredWrites.of(WritesDocument("answer", str(tmp_path / "writes")).dump())


def test_unreadable_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="AUDIT_WRITES"):
        AnsweredWrites.of("{}")


# in the gateway


def test_gateway_honours_idempotency_keys(tmp_path: Path) -> None:
    file = str(tmp_path / "writes")
    with shop_lab(tmp_path, json_reply(200, {"id": 1})) as lab:
        lab.begin(audit_writes=WritesDocument("record", file).dump())
        post(lab, "/orders")
        lab.begin(audit_writes=WritesDocument("answer", file).dump())
        assert [post(lab, "/orders", key).json()["id"] for key in ("a", "a", "b")] == [1, 1, 2]


def test_gateway_refuses_mutations_and_forwards_queries(tmp_path: Path) -> None:
    (tmp_path / "writes").touch()
    with shop_lab(tmp_path) as lab:
        lab.begin(audit_writes=WritesDocument("answer", str(tmp_path / "writes")).dump())
        bodies = [{"query": "{orders {id}}"}, {"query": "mutation {order {id}}"}]
        assert [post(lab, "/graphql", body=body).status_code for body in bodies] == [200, 403]
        refused = lab.exchange(2)
        assert (refused.forwarded, refused.error) == (False, NOT_RECORDED)


def test_gateway_answers_json_rpc_by_method(tmp_path: Path) -> None:
    file = str(tmp_path / "writes")
    reply = json_reply(200, {"jsonrpc": "2.0", "id": 1, "result": {"order_id": 7}})
    with shop_lab(tmp_path, reply) as lab:
        lab.begin(audit_writes=WritesDocument("record", file).dump())
        post(lab, "/rpc", body={"jsonrpc": "2.0", "id": 1, "method": "place_order"})
        lab.begin(audit_writes=WritesDocument("answer", file).dump())
        methods = ["get_price", "place_order", "place_order"]
        bodies = [{"jsonrpc": "2.0", "id": id, "method": name} for id, name in enumerate(methods, 5)]
        read, *placed = [post(lab, "/rpc", body=body).json() for body in bodies]
        assert read["id"] == 1  # the server's own
        assert [(each["id"], each["result"]) for each in placed] == [
            (6, {"order_id": 7}),
            (7, {"order_id": 8}),
        ]
        assert lab.exchange(len(bodies)).status == 200


def post(lab: Lab, path: str, key: str = "", body: Any = None) -> requests.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return requests.post(lab.url("shop", path), json=body or {"item": "mug"}, headers=headers, timeout=30)


def rpc(id: int, method: str = "place_order", **more: Any) -> Request:
    return Request((), dump_json({"jsonrpc": "2.0", "id": id, "method": method, **more}), "POST", "/rpc")


def mcp_call(id: int, tool: str) -> Request:
    return rpc(id, "tools/call", params={"name": tool, "arguments": {}})


def mutation(name: str) -> Request:
    return Request((), dump_json({"query": f"mutation {name} {{ order {{ id }} }}"}), "POST", "/graphql")


def answering(file: Path, *recorded: tuple[Request, Reply]) -> Player:
    recorder = chosen(WritesDocument("record", str(file)), "POST /rpc").recorder
    assert recorder is not None
    for request, reply in recorded:
        recorder.ask(request)(reply)
    player = chosen(WritesDocument("answer", str(file)), "POST /rpc").player
    assert player is not None
    return player


def test_reply_of_json_rpc_has_its_request_id_and_next_ids(tmp_path: Path) -> None:
    result = {"jsonrpc": "2.0", "id": 3, "result": {"order_id": 7}}
    refund = {"jsonrpc": "2.0", "id": 4, "result": {"refund_id": 1}}
    player = answering(
        tmp_path / "writes", (rpc(3), json_reply(200, result)), (rpc(4, "refund"), json_reply(200, refund))
    )
    assert replies(player, rpc(9), rpc(10, "refund"), rpc(11), rpc(12, "cancel")) == [
        {"jsonrpc": "2.0", "id": 9, "result": {"order_id": 7}},
        {"jsonrpc": "2.0", "id": 10, "result": {"refund_id": 1}},
        {"jsonrpc": "2.0", "id": 11, "result": {"order_id": 8}},
        None,
    ]


def test_batch_of_json_rpc_has_no_reply(tmp_path: Path) -> None:
    batch = Request((), b'[{"jsonrpc": "2.0", "id": 1, "method": "a"}]', "POST", "/rpc")
    assert replies(answering(tmp_path / "writes", (batch, json_reply(200, [{"id": 1}]))), batch) == [None]


def test_graphql_mutations_have_their_own_replies(tmp_path: Path) -> None:
    player = answering(
        tmp_path / "writes",
        (mutation("Order"), json_reply(200, {"data": {"order": {"id": "7", "total": 3}}})),
        (mutation("Refund"), json_reply(200, {"data": {"refund": {"done": True}}})),
    )
    assert replies(player, mutation("Refund"), mutation("Order"), mutation("Order")) == [
        {"data": {"refund": {"done": True}}},
        {"data": {"order": {"id": "7", "total": 3}}},
        {"data": {"order": {"id": "8", "total": 3}}},
    ]


def test_result_of_mcp_tool_in_event_stream_is_addressed(tmp_path: Path) -> None:
    content = [{"type": "text", "text": '{"order_id": 7}'}]
    result = {"content": content, "structuredContent": {"order_id": 7}}
    message = {"jsonrpc": "2.0", "id": 2, "result": result}
    headers = (("Content-Type", "text/event-stream"), ("Mcp-Session-Id", "of the clean run"))
    stream = Reply(headers, b"event: message\ndata: " + dump_json(message) + b"\n\n")
    player = answering(tmp_path / "writes", (mcp_call(2, "place_order"), stream))
    first, second = (player.next_reply(mcp_call(id, "place_order")) for id in (5, 6))
    assert first is not None and second is not None
    assert first.headers == headers[:1]
    read = [json.loads(reply.body.partition(b"data: ")[2]) for reply in (first, second)]
    assert [each["id"] for each in read] == [5, 6]
    assert read[0]["result"] == result
    assert read[1]["result"]["structuredContent"] == {"order_id": 8}
    assert json.loads(read[1]["result"]["content"][0]["text"]) == {"order_id": 8}
    assert player.next_reply(mcp_call(7, "refund")) is None


def test_operations_of_aws_have_their_own_replies(tmp_path: Path) -> None:
    put, delete = (
        Request((("x-amz-target", f"Db.{name}"),), b"{}", "POST", "/") for name in ("PutItem", "DeleteItem")
    )
    player = answering(tmp_path / "writes", (put, json_reply(200, {"put": 1})))
    assert replies(player, delete, put) == [None, {"put": 1}]
