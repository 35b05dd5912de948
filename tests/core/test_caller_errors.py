import pytest

from wirefault.core.caller_errors import error_kind, sorted_kinds


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, None),
        ("http_404", "http_4xx"),
        ("http_429", "http_429"),
        ("http_503", "http_5xx"),
        ("http_302", None),
        ("read_timeout", "timeout"),
        ("ReadTimeout", "timeout"),
        ("RemoteProtocolError", "closed"),
        ("connection_reset", "reset"),
        ("SomethingNew", None),
    ],
)
def test_each_error_word_has_kind(error, kind):
    assert error_kind(error) == kind


def test_kinds_have_fixed_order():
    assert sorted_kinds({"http_5xx", "timeout", "closed"}) == ["timeout", "closed", "http_5xx"]
