"""The kinds of error that a caller may see for one try, independent of its client library.

Each fault and each toxic declares the kinds that it can cause. It is never used to explain any other kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

ErrorKind = Literal[
    "timeout",  # the client gave up
    "refused",  # no connection was made
    "closed",  # the connection ended before the reply did
    "reset",  # the connection was reset
    "bad_reply",  # a reply came that the client could not read
    "http_429",
    "http_4xx",  # except 429
    "http_5xx",
]
ERROR_KINDS_IN_ORDER: tuple[ErrorKind, ...] = get_args(ErrorKind)
NOTHING: frozenset[ErrorKind] = frozenset()
TIMEOUT: frozenset[ErrorKind] = frozenset({"timeout"})
# A peer that still had data to send resets the connection instead of closing it.
CLOSED: frozenset[ErrorKind] = frozenset({"closed", "reset"})
HTTP_ERRORS: frozenset[ErrorKind] = frozenset({"http_429", "http_4xx", "http_5xx"})
ERROR_KINDS: tuple[tuple[str, int], ...] = (("server_error", 500), ("unavailable", 503), ("rate_limit", 429))
"""The faults that ``ERROR_PROB`` draws, each with its status."""

CANCELLED = "cancelled"
"""The error of a try that the caller itself ended, since another one was answered; it is of no kind."""
_KINDS: Mapping[str, ErrorKind] = {
    "read_timeout": "timeout",
    "connect_timeout": "timeout",
    "connection_refused": "refused",
    "connection_closed": "closed",
    "connection_reset": "reset",
    "bad_reply": "bad_reply",
}
# The records of tries on the model link name httpx's exceptions.
_WORDS: Mapping[str, str] = {
    "ReadTimeout": "read_timeout",
    "WriteTimeout": "read_timeout",
    "ConnectTimeout": "connect_timeout",
    "PoolTimeout": "connect_timeout",
    "ConnectError": "connection_refused",
    "RemoteProtocolError": "connection_closed",
    "ReadError": "connection_reset",
    "WriteError": "connection_reset",
    "CloseError": "connection_reset",
    "DecodingError": "bad_reply",
}


def error_name(error: str | None) -> str | None:
    """Return the history's word for a tool's error, or the error unchanged."""
    return _WORDS.get(error, error) if error else None


def error_kind(error: str | None) -> ErrorKind | None:
    """Return the kind of a try's error; None without an error or if it is unknown."""
    if error is not None and error.startswith("http_") and error[5:].isdecimal():
        return status_kind(int(error[5:]))
    return _KINDS.get(error_name(error) or "")


def status_kind(status: int) -> ErrorKind | None:
    """Return the kind of error that the status shows; None below 400."""
    if status < 400:
        return None
    return "http_429" if status == 429 else "http_4xx" if status < 500 else "http_5xx"


def sorted_kinds(kinds: Iterable[ErrorKind]) -> list[ErrorKind]:
    """Return each kind once, in the order of ``ErrorKind``."""
    present = set(kinds)
    return [kind for kind in ERROR_KINDS_IN_ORDER if kind in present]
