"""Two requests are the same without the parts that a client generates for each sending."""

from __future__ import annotations

import pytest

from wirefault.dialects.sameness import Wanted, idempotency_field, same_digest

NOW = 1764120000.0  # 2025-11-26T01:20:00Z
UUIDS = "3fa85f64-5717-4562-b3fc-2c963f66afa6", "0b6f3f0e-7a51-4d0e-9d2e-5f4f6f1c2a10"


def same(first: str, second: str, known: str = "", path: str = "/orders", tool: str = "") -> bool:
    digests = [
        same_digest(Wanted("shop", "POST", path, tool, body, NOW + at), "", known.__contains__)
        for body, at in ((first, 0), (second, 2))
    ]
    return digests[0] == digests[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"item": "tea", "count": 2}', '{"count":2,"item":"tea"}'),
        (f'{{"item": "tea", "id": "{UUIDS[0]}"}}', f'{{"item": "tea", "id": "{UUIDS[1]}"}}'),
        (f'{{"item": "tea", "x": "{UUIDS[0]}"}}', f'{{"item": "tea", "x": "{UUIDS[1]}"}}'),
        ('{"order_id": "ord_9f3kq82d"}', '{"order_id": "ord_41mzx0qa"}'),
        ('{"id": "o-1764120000123"}', '{"id": "o-1764120002456"}'),
        ('{"order": {"ref": "ab12cd34"}}', '{"order": {"ref": "zz98yy76"}}'),
        ('{"idempotencyKey": "a", "item": "tea"}', '{"idempotencyKey": "b", "item": "tea"}'),
        ('{"request_id": 1, "item": "tea"}', '{"request_id": 2, "item": "tea"}'),
        ('{"item": "tea", "attempt": 1}', '{"item": "tea", "attempt": 2}'),
        ('{"at": "2025-11-26T01:20:00Z"}', '{"at": "2025-11-26T01:20:02.123Z"}'),
        ('{"timestamp": 1764120000}', '{"timestamp": 1764120002}'),
        ('{"ms": 1764120000123}', '{"ms": 1764120002456}'),
        ("item=tea&nonce=1", "nonce=2&item=tea"),
        (f"tea, order {UUIDS[0]}", f"tea, order {UUIDS[1]}"),
        ("--abcdef123\r\n\r\ntea\r\n--abcdef123--", "--fedcba321\r\n\r\ntea\r\n--fedcba321--"),
    ],
)
def test_generated_parts_are_ignored(first: str, second: str) -> None:
    assert same(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"item": "green tea"}', '{"item": "tea, green"}'),
        ('{"item": "tea", "count": 1}', '{"item": "tea", "count": 2}'),
        ('{"day": "2025-11-27", "time": "10:00"}', '{"day": "2025-11-27", "time": "11:00"}'),
        ('{"start": "2025-11-27T10:00:00Z"}', '{"start": "2025-11-27T11:00:00Z"}'),
        ('{"product_id": "ab12cd34"}', '{"product_id": "zz98yy76"}'),
        (f'{{"sku": "{UUIDS[0]}"}}', f'{{"sku": "{UUIDS[1]}"}}'),
        ('{"id": 17}', '{"id": 18}'),
        ('{"id": "17"}', '{"id": "18"}'),
        ('{"ref": "INV-2025"}', '{"ref": "INV-2026"}'),
        ('{"to": "+4915112345678"}', '{"to": "+4915187654321"}'),
        ("item=tea", "item=coffee"),
    ],
)
def test_other_differences_are_kept(first: str, second: str) -> None:
    assert not same(first, second)


def test_received_id_is_compared() -> None:
    first, second = (f'{{"id": "{uuid}"}}' for uuid in UUIDS)
    assert not same(first, second, known=" ".join(UUIDS))


def test_path_is_compared_without_generated_ids() -> None:
    digests = {
        same_digest(Wanted("shop", "POST", path, "", "{}", NOW), "", "".__contains__)
        for path in (f"/orders/{UUIDS[0]}/lines", f"/orders/{UUIDS[1]}/lines")
    }
    assert len(digests) == 1
    assert same_digest(Wanted("shop", "POST", "/orders/1", "", "{}", NOW), "", "".__contains__) not in digests


def test_mcp_call_is_compared_by_tool_and_arguments() -> None:
    call = '{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "add", "arguments": %s}}'
    assert same(call % (1, '{"text": "hi"}'), call % (2, '{"text": "hi"}'), tool="add")
    assert not same(call % (1, '{"text": "hi"}'), call % (2, '{"text": "ho"}'), tool="add")


def test_fingerprint_is_compared_without_body() -> None:
    wanted = Wanted("shop", "POST", "/orders", "", None, NOW)
    assert same_digest(wanted, "f1", "".__contains__) != same_digest(wanted, "f2", "".__contains__)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"item": "tea", "client_token": "k"}', "k"),
        ("item=tea&idempotency_key=k", "k"),
        ('--abcdefgh\r\nContent-Disposition: form-data; name="dedup_id"\r\n\r\nk\r\n--abcdefgh--\r\n', "k"),
        ('{"jsonrpc": "2.0", "id": 7, "method": "order", "params": {"idempotencyKey": "k"}}', "k"),
        ('{"query": "mutation ...", "variables": {"input": {"clientToken": "k"}}}', "k"),
        ('{"item": {"idempotency_key": "k"}}', ""),
        ("idempotency_key", ""),
        ("[]", ""),
    ],
)
def test_idempotency_key_is_read_in_every_form_of_body(body: str, key: str) -> None:
    assert idempotency_field(body) == key
