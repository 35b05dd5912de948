"""Requests whose operation is in a header or the body."""

from __future__ import annotations

import pytest

from wirefault.wiring.links import Link
from wirefault.wiring.write_requests import SentRequest, is_write, may_write, operation_in

TABLES = Link("tables", "https://dynamodb.example")


@pytest.mark.parametrize(
    ("operation", "writes"),
    [
        ("Db_2012.PutItem", True),
        ("Db_2012.GetItem", False),
        ("Db_2012.Scan", False),
        ("Sqs.Send", True),
    ],
)
def test_operation_of_aws_shows_writes(operation: str, writes: bool) -> None:
    assert is_write(TABLES, SentRequest("POST", "/", "{}", True, amz_target=operation), ()) == writes


_MUTATION = '{"query": "mutation {pay {id}}"}'


@pytest.mark.parametrize(
    ("link", "method", "path", "body", "writes"),
    [
        (Link("shop", "https://shop.example"), "POST", "/orders", "{}", True),
        (Link("shop", "https://shop.example"), "PUT", "/orders/7", "{}", True),
        (Link("shop", "https://shop.example"), "PATCH", "/orders/7", "{}", True),
        (Link("shop", "https://shop.example"), "DELETE", "/orders/7", None, True),
        (Link("shop", "https://shop.example"), "GET", "/orders", None, False),
        (Link("shop", "https://shop.example"), "POST", "/search", "{}", False),
        (Link("shop", "https://shop.example"), "POST", "/query", _MUTATION, True),
        (Link("shop", "https://shop.example", writes=("POST /search",)), "POST", "/search", "{}", True),
        (Link("shop", "https://shop.example", writes=("POST /search",)), "POST", "/orders", "{}", False),
        (Link("shop", "https://shop.example", writes_declared=True), "POST", "/orders", "{}", False),
    ],
)
def test_wiring_corrects_what_the_request_shows(
    link: Link, method: str, path: str, body: str | None, writes: bool
) -> None:
    assert is_write(link, SentRequest(method, path, body, True), ()) == writes


def test_name_of_a_read_does_not_prove_that_a_call_is_safe() -> None:
    search = SentRequest("POST", "/search", "{}", True)
    link = Link("shop", "https://shop.example")
    assert may_write(link, search, ()) and not is_write(link, search, ())


def test_only_declared_operation_of_path_writes() -> None:
    link = Link("rpc", "https://rpc.example", writes=("POST /rpc place_order",), writes_declared=True)
    kinds = [
        is_write(link, SentRequest("POST", "/rpc", f'{{"jsonrpc": "2.0", "method": "{method}"}}', True), ())
        for method in ("place_order", "cancel_order")
    ]
    assert kinds == [True, False]


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        ('{"jsonrpc": "2.0", "method": "pay"}', "pay"),
        ('{"operationName": "Pay", "query": "mutation Pay {x}"}', "Pay"),
        ('{"method": "post"}', ""),
        ("[1]", ""),
        ("no JSON", ""),
    ],
)
def test_body_names_operation(body: str, operation: str) -> None:
    assert operation_in(body) == operation
