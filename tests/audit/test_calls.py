"""Keys of calls."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import exchange
from wirefault.audit.calls import calls_in, identify_call
from wirefault.judging.trace import episode_trace
from wirefault.wiring.write_requests import path_template


@pytest.mark.parametrize(
    ("target", "template"),
    [
        ("/v1/orders/17?expand=1", "/v1/orders/*"),
        ("/orders/0b2f9a34-77aa-4c1e-9a43-6f1f0c2d7e11/items", "/orders/*/items"),
        ("/blobs/9f86d081884c7d65", "/blobs/*"),
        ("/feedback", "/feedback"),
        ("/v1beta2/models", "/v1beta2/models"),
    ],
)
def test_path_template_hides_ids(target: str, template: str) -> None:
    assert path_template(target) == template


def test_operation_is_part_of_name() -> None:
    body = '{"operationName": "PlaceOrder", "query": "mutation {x}"}'
    call = exchange(method="POST", target="/graphql", request_body=body)
    assert identify_call(call) == (
        "POST /graphql PlaceOrder",
        {"method": "POST", "path": "/graphql", "json": {"operationName": "PlaceOrder"}},
    )
    body = '{"jsonrpc": "2.0", "method": "eth_send", "id": 1}'
    call = exchange(method="POST", target="/rpc", request_body=body)
    named = identify_call(call)
    assert named is not None and named[0] == "POST /rpc eth_send"


def test_streams_and_sessions_of_mcp_are_no_calls() -> None:
    of_notes = {"link": "notes", "target": "/mcp", "dialect": "mcp"}
    exchanges = [
        exchange(**of_notes, method="GET"),
        exchange(**of_notes, method="POST", message="tools/list", fingerprint="f2"),
        exchange(**of_notes, method="POST", message="tools/call", tool="add", session="s1", fingerprint="f3"),
        exchange(**of_notes, method="DELETE", fingerprint="f4"),
    ]
    assert [(call.text, call.in_session) for call in calls_in(episode_trace(exchanges))] == [("add", True)]


def test_target_of_aws_names_calls_and_their_faults() -> None:
    of_table = {"link": "dynamodb", "method": "POST", "target": "/", "request_body": '{"TableName": "t"}'}
    operations = ["Db_2012.GetItem", "Db_2012.PutItem", "Db_2012.PutItem"]
    exchanges = [
        exchange(**of_table, operation=name, call=number, fingerprint="same")
        for number, name in enumerate(operations, 1)
    ]
    calls = calls_in(episode_trace(exchanges))
    assert [(call.text, call.ordinal) for call in calls] == [
        ("POST / Db_2012.GetItem", 1),
        ("POST / Db_2012.PutItem", 1),
        ("POST / Db_2012.PutItem", 2),
    ]
    assert calls[1].only["header"] == {"X-Amz-Target": "Db_2012.PutItem"}


def test_traces_of_an_sdk_are_no_model_calls() -> None:
    model = {"link": "openai", "dialect": "openai_responses", "method": "POST"}
    request = exchange(**model, target="/v1/responses")
    traced = episode_trace([request, exchange(**model, target="/v1/traces/ingest", fingerprint="f2")])
    assert [(call.text, call.kind) for call in calls_in(traced)] == [("model 1", "model")]
