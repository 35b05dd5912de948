"""unresolved: a name that does not resolve, as the caller and the ingress record it."""

import pytest

from tests.toxiproxy.toxics.test_signatures import (
    FRESH,
    KEPT,
    NEVER_ARRIVED,
    connection_shows,
    failed,
    seen,
)


@pytest.mark.parametrize("tls", [{}, FRESH])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (failed("connection_refused", 1, **NEVER_ARRIVED), True),
        (failed("connection_refused", 1), False),
        (failed("connect_timeout", 1001, **NEVER_ARRIVED), False),
    ],
)
def test_missing_connection_without_request_shows_it(changes, expected, tls):
    assert seen("unresolved", "downstream", **changes, **tls) is expected


def test_kept_alive_connection_has_no_signature():
    assert not seen("unresolved", "downstream", **KEPT)


@pytest.mark.parametrize(("how", "expected"), [("unresolved", True), ("refused", False), ("fin", False)])
def test_ingress_records_what_it_did_not_resolve(how, expected):
    assert connection_shows("unresolved", "downstream", how=how) is expected
