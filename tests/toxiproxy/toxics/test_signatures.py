"""Each toxic's signature: whether the caller's record shows it."""

import pytest

from tests.support import replace
from wirefault.toxiproxy.toxics import TOXICS, toxic
from wirefault.toxiproxy.toxics.base import ObservedConnection, ObservedTry

HEALTHY = ObservedTry(
    client_ms=12,
    client_failed=False,
    client_error=None,
    client_timeout_ms=1000,
    gateway_ms=10,
    gateway_complete_request=True,
    gateway_complete_reply=True,
    reply_bytes=500,
)
NEVER_ARRIVED = {"gateway_ms": 0, "gateway_complete_request": False, "gateway_complete_reply": False}


def seen(text, stream="upstream", **changes):
    kind, _, values = text.partition(":")
    attributes = {name: int(value) for name, value in (part.split("=") for part in values.split(";") if part)}
    known = toxic(kind)
    return known.observed(stream, known.complete(attributes), replace(HEALTHY, **changes))


def failed(error, ms, **changes):
    return {"client_failed": True, "client_error": error, "client_ms": ms} | changes


@pytest.mark.parametrize("known", TOXICS, ids=lambda known: known.kind)
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_healthy_call_shows_no_toxic(known, stream):
    assert not known.observed(stream, known.complete({}), HEALTHY)


@pytest.mark.parametrize(
    ("text", "stream", "changes", "expected"),
    [
        ("timeout:timeout=400", "upstream", failed("connection_closed", 401, **NEVER_ARRIVED), True),
        ("timeout:timeout=400", "upstream", failed("connection_closed", 361, **NEVER_ARRIVED), True),
        ("timeout:timeout=400", "upstream", failed("connection_closed", 300, **NEVER_ARRIVED), False),
        ("timeout:timeout=400", "upstream", failed("connection_closed", 401), False),
        ("timeout:timeout=400", "downstream", failed("connection_closed", 401), True),
        ("timeout:timeout=400", "downstream", failed("connection_closed", 401, **NEVER_ARRIVED), False),
        ("timeout:timeout=400", "downstream", {"client_ms": 401}, False),
        ("timeout:timeout=4000", "upstream", failed("read_timeout", 1001, **NEVER_ARRIVED), True),
        ("timeout:timeout=0", "downstream", failed("read_timeout", 1001), True),
        ("timeout:timeout=0", "downstream", failed("connection_closed", 400), False),
        ("latency:latency=300", "upstream", {"client_ms": 311}, True),
        ("latency:latency=300", "upstream", {"client_ms": 311, "gateway_ms": 305}, False),
        ("latency:latency=1500", "downstream", failed("read_timeout", 1001), True),
        ("latency:latency=1500", "upstream", failed("read_timeout", 1001, **NEVER_ARRIVED), True),
        ("latency:latency=300;jitter=100", "upstream", {"client_ms": 195}, True),
        ("latency:latency=300;jitter=300", "upstream", {"client_ms": 900}, False),
        ("latency:latency=0", "upstream", {}, False),
        ("reset_peer:", "upstream", failed("connection_reset", 2, **NEVER_ARRIVED), True),
        ("reset_peer:", "upstream", failed("connection_closed", 2, **NEVER_ARRIVED), True),
        ("reset_peer:", "upstream", failed("connection_closed", 2), False),
        ("reset_peer:", "downstream", failed("connection_reset", 12), True),
        ("reset_peer:timeout=500", "downstream", failed("connection_reset", 12), False),
        ("reset_peer:timeout=5000", "downstream", failed("read_timeout", 1001), True),
        ("bandwidth:rate=1", "downstream", {"client_ms": 510}, True),
        ("bandwidth:rate=1", "downstream", {"client_ms": 400}, False),
        ("bandwidth:rate=100", "downstream", {"client_ms": 20}, False),
        ("bandwidth:rate=1", "upstream", failed("read_timeout", 1001, **NEVER_ARRIVED), True),
        ("slicer:average_size=50;delay=10000", "downstream", {"client_ms": 105}, True),
        ("slicer:average_size=50;delay=10000", "downstream", {"client_ms": 60}, False),
        ("slicer:average_size=50;delay=0", "downstream", {"client_ms": 900}, False),
        ("limit_data:", "downstream", failed("bad_reply", 12), True),
        ("limit_data:bytes=5000", "downstream", failed("bad_reply", 12), False),
        ("limit_data:", "upstream", failed("connection_closed", 2, **NEVER_ARRIVED), True),
        ("limit_data:", "downstream", failed("read_timeout", 1001), False),
        ("slow_close:delay=900", "downstream", {"client_ms": 1000}, False),
        ("down:", "downstream", failed("connection_refused", 1, **NEVER_ARRIVED), True),
        ("down:", "downstream", failed("connection_closed", 1, **NEVER_ARRIVED), False),
    ],
)
def test_toxic_signatures(text, stream, changes, expected):
    assert seen(text, stream, **changes) is expected


FRESH = {"tls": "fresh"}
KEPT = {"tls": "kept"}


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        # handshake and request cross it in turn
        ("latency:latency=300", {"client_ms": 611} | FRESH, True),
        ("latency:latency=300", {"client_ms": 311} | FRESH, False),
        ("latency:latency=300", {"client_ms": 311} | KEPT, True),
        ("latency:latency=600", failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH), True),
        # a stopped handshake prevents the request from reaching the gateway
        ("timeout:timeout=400", failed("connection_closed", 401, **NEVER_ARRIVED, **FRESH), True),
        ("timeout:timeout=400", failed("connection_closed", 300, **NEVER_ARRIVED, **FRESH), False),
        ("timeout:timeout=0", failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH), True),
        ("reset_peer:", failed("connection_reset", 2, **NEVER_ARRIVED, **FRESH), True),
        ("reset_peer:timeout=5000", failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH), True),
        ("limit_data:", failed("connection_closed", 2, **NEVER_ARRIVED, **FRESH), True),
        ("limit_data:", failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH), False),
        ("bandwidth:rate=1", failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH), True),
        ("slicer:", failed("read_timeout", 1001, **NEVER_ARRIVED, **FRESH), True),
    ],
)
def test_fresh_tls_handshake_crosses_toxic_in_both_streams(text, stream, changes, expected):
    assert seen(text, stream, **changes) is expected


@pytest.mark.parametrize(
    ("text", "stream", "changes"),
    [
        ("timeout:timeout=400", "upstream", failed("connection_closed", 401, **NEVER_ARRIVED)),
        ("timeout:timeout=400", "downstream", failed("connection_closed", 401)),
        ("reset_peer:", "downstream", failed("connection_closed", 12)),
        ("limit_data:bytes=5000", "downstream", failed("bad_reply", 12)),  # earlier data counts
    ],
)
def test_kept_alive_tls_is_stopped_like_http(text, stream, changes):
    assert seen(text, stream, **changes, **KEPT)


HEALTHY_CONNECTION = ObservedConnection(
    ms=500, first_byte_ms=12, bytes_sent=900, received=2000, by_proxy=False, how="fin", tls=True
)
NOTHING_CAME = {"first_byte_ms": None, "received": 0}
PLAIN = {"tls": False}
ASKED = {"gateway_complete_request": True, "gateway_ms": 10}
ANSWERED = ASKED | {"gateway_complete_reply": True}


SLICER = "slicer:average_size=10;delay=2000"  # pauses of 398 ms in 2,000 bytes
ALONE = PLAIN | ANSWERED | {"replies": 1}


def connection_shows(text, stream, **changes):
    kind, _, values = text.partition(":")
    attributes = {name: int(value) for name, value in (part.split("=") for part in values.split(";") if part)}
    known = toxic(kind)
    return known.shown_by(stream, known.complete(attributes), replace(HEALTHY_CONNECTION, **changes))


@pytest.mark.parametrize("known", TOXICS, ids=lambda known: known.kind)
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_healthy_connection_shows_no_toxic(known, stream):
    for healthy in ({}, PLAIN | ANSWERED):
        assert not known.shown_by(stream, known.complete({}), replace(HEALTHY_CONNECTION, **healthy))


@pytest.mark.parametrize("kind", ["bandwidth", "slicer", "slow_close"])
def test_some_toxics_leave_no_connection_sign(kind):
    assert connection_shows(kind, "downstream") is None


@pytest.mark.parametrize(
    ("text", "stream", "changes", "expected"),
    [
        ("latency:latency=300", "upstream", {"first_byte_ms": 290}, True),
        ("latency:latency=300", "upstream", {"first_byte_ms": 290} | PLAIN | ANSWERED, True),
        ("latency:latency=300", "upstream", {"first_byte_ms": 290, "gateway_ms": 280} | PLAIN, False),
        ("latency:latency=900", "downstream", NOTHING_CAME, True),
        ("latency:latency=900", "downstream", NOTHING_CAME | PLAIN, True),
        ("latency:latency=900", "downstream", NOTHING_CAME | PLAIN | {"gateway_ms": 490}, False),
        ("latency:latency=900", "downstream", NOTHING_CAME | {"by_proxy": True}, False),
        ("timeout:timeout=400", "upstream", NOTHING_CAME | {"by_proxy": True}, True),
        ("timeout:timeout=0", "downstream", NOTHING_CAME, True),
        ("timeout:timeout=400", "downstream", {"by_proxy": True}, False),
        ("timeout:timeout=400", "upstream", NOTHING_CAME | PLAIN, True),
        ("timeout:timeout=400", "upstream", NOTHING_CAME | PLAIN | ASKED, False),
        ("timeout:timeout=400", "downstream", NOTHING_CAME | PLAIN | ANSWERED, True),
        ("timeout:timeout=400", "downstream", NOTHING_CAME | PLAIN | ASKED, False),
        ("timeout:timeout=400", "upstream", NOTHING_CAME | {"bytes_sent": 0}, False),
        ("reset_peer:timeout=400", "upstream", {"by_proxy": True, "how": "rst"}, True),
        ("reset_peer:timeout=900", "upstream", {"by_proxy": True, "how": "rst"}, False),
        ("reset_peer:", "upstream", {"how": "rst"}, False),
        ("limit_data:bytes=700", "downstream", {"by_proxy": True, "received": 700}, True),
        ("limit_data:bytes=700", "downstream", {"by_proxy": True}, False),
        ("limit_data:bytes=700", "upstream", {"by_proxy": True}, True),
        ("limit_data:bytes=900", "upstream", {"by_proxy": True}, False),
        ("down:", "upstream", NOTHING_CAME | {"how": "refused", "by_proxy": True}, True),
        (SLICER, "downstream", ALONE | {"last_byte_ms": 420}, True),
        (SLICER, "downstream", ALONE | {"last_byte_ms": 120}, None),  # faster than its pauses
        (SLICER, "downstream", ALONE | {"last_byte_ms": 900, "gateway_ms": 300}, None),  # a slow server
        (SLICER, "downstream", ALONE | {"last_byte_ms": 420, "replies": 2}, None),
        (SLICER, "upstream", ALONE | {"last_byte_ms": 420}, None),
        ("slicer:average_size=10;delay=1", "downstream", ALONE | {"last_byte_ms": 420}, None),
    ],
)
def test_connection_shows_toxic(text, stream, changes, expected):
    assert connection_shows(text, stream, **changes) is expected


def test_client_without_timeout_never_shows_endless_toxic():
    endless = failed("connection_closed", 99_999, client_timeout_ms=0, **NEVER_ARRIVED)
    assert not seen("timeout:timeout=0", **endless)
    assert seen("timeout:timeout=400", **endless)
