"""Declared causes of faults, compared with the observations of real clients (docs/faults_seen.json)."""

from __future__ import annotations

import re

import pytest

from tools.fault_pages import read_seen
from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind, error_kind
from wirefault.faults.registry import REGISTRY

SEEN_AS: tuple[tuple[str, frozenset[ErrorKind]], ...] = (
    ("Timeout|^exception ConnectionError$", TIMEOUT),  # requests reports the same for any body that stops
    ("ResetError|ReadError", frozenset({"reset"})),
    ("RemoteDisconnected|RemoteProtocolError|ChunkedEncodingError|APIConnectionError", CLOSED),
    (
        "JSONDecodeError|ContentDecodingError|UnicodeDecodeError|AttributeError|TypeError|APIError",
        frozenset({"bad_reply"}),
    ),
)
ROWS = [
    (row, words)
    for row, seen in read_seen().items()
    for client, words in seen.items()
    # the errors after retries of a session or an agent are not errors of one try
    if client.split(",")[0] in ("requests", "openai", "groq") and "Retry" not in client
    if "exception" in words and "exception" in words and "Retry" not in client
]


@pytest.mark.parametrize(("row", "words"), ROWS)
def test_fault_declares_client_errors(row: str, words: str) -> None:
    status = re.search(r"status (\d+)", words)
    if status:
        possible = {error_kind(f"http_{status[1]}")}
    else:
        possible = next(kinds for pattern, kinds in SEEN_AS if re.search(pattern, words))
    assert possible & REGISTRY[row.partition(" (")[0]].can_cause


@pytest.mark.parametrize(
    ("name", "parameters", "causes"),
    [
        ("lose_reply", {"then": "hang"}, {"timeout"}),
        ("lose_reply", {"then": "close"}, {"closed", "reset"}),
        ("stream_hang", {}, {"timeout", "closed", "reset"}),
        ("stream_hang", {"ping_every": 1}, {"timeout", "closed", "reset", "bad_reply"}),
        ("slow_first_token", {}, {"timeout"}),
        ("truncate", {"content_length": "corrected"}, {"bad_reply"}),
        ("flap", {"kind": "close"}, {"closed", "reset"}),
        ("flap", {}, {"http_5xx"}),
        ("status", {"status": 429}, {"http_429"}),
        ("status", {"status": 204}, {"bad_reply"}),
        ("content_filter", {}, set()),
        ("content_filter", {"form": "error"}, {"http_4xx"}),
        ("wrong_value", {}, set()),
    ],
)
def test_parameters_narrow_client_errors(
    name: str, parameters: dict[str, object], causes: set[ErrorKind]
) -> None:
    fault = REGISTRY[name](**parameters)
    assert fault.causes == causes <= fault.can_cause
