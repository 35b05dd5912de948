"""Requests whose operation is in a header or the body."""

from __future__ import annotations

import pytest

from wirefault.wiring.links import Link
from wirefault.wiring.write_requests import SentRequest, WriteKind, operation_in, write_kind

TABLES = Link("tables", "https://dynamodb.example")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("Db_2012.PutItem", "probable"),
        ("Db_2012.GetItem", None),
        ("Db_2012.Scan", None),
        ("Sqs.Send", "probable"),
    ],
)
def test_operation_of_aws_shows_writes(operation: str, kind: WriteKind | None) -> None:
    assert write_kind(TABLES, SentRequest("POST", "/", "{}", True, amz_target=operation), ()) == kind


def test_only_declared_operation_of_path_writes() -> None:
    link = Link("rpc", "https://rpc.example", writes=("POST /rpc place_order",), writes_declared=True)
    kinds = [
        write_kind(link, SentRequest("POST", "/rpc", f'{{"jsonrpc": "2.0", "method": "{method}"}}', True), ())
        for method in ("place_order", "cancel_order")
    ]
    assert kinds == ["declared", None]


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
