"""The kinds of error that a caller may see of one try, whatever its client calls them.

Each fault and each toxic declares those that it can cause; it explains no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

ErrorKind = Literal[
    "timeout",  # the client gave up
    "refused",  # there was no connection
    "closed",  # the connection ended before the reply did
    "reset",  # the connection was reset
    "bad_reply",  # a reply came that the client could not read
    "http_429",
    "http_4xx",  # any other
    "http_5xx",
]
ERROR_KINDS_IN_ORDER: tuple[ErrorKind, ...] = get_args(ErrorKind)
NOTHING: frozenset[ErrorKind] = frozenset()
TIMEOUT: frozenset[ErrorKind] = frozenset({"timeout"})
# A closed connection is reset where the other side had still something to say.
CLOSED: frozenset[ErrorKind] = frozenset({"closed", "reset"})
HTTP_ERRORS: frozenset[ErrorKind] = frozenset({"http_429", "http_4xx", "http_5xx"})

_KINDS: Mapping[str, ErrorKind] = {
    "read_timeout": "timeout",
    "connect_timeout": "timeout",
    "connection_refused": "refused",
    "connection_closed": "closed",
    "connection_reset": "reset",
    "bad_reply": "bad_reply",
}
# What tries at the model are recorded with: exceptions of httpx.
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
    """The word that the history of a tool's tries has for the error, or the error itself."""
    return _WORDS.get(error, error) if error else None


def error_kind(error: str | None) -> ErrorKind | None:
    """The kind of a try's error; None without one, and for one that nobody knows."""
    if error is not None and error.startswith("http_") and error[5:].isdecimal():
        return status_kind(int(error[5:]))
    return _KINDS.get(error_name(error) or "")


def status_kind(status: int) -> ErrorKind | None:
    """The error that a reply of that status is, by the status alone."""
    if status < 400:
        return None
    return "http_429" if status == 429 else "http_4xx" if status < 500 else "http_5xx"


def sorted_kinds(kinds: Iterable[ErrorKind]) -> list[ErrorKind]:
    """Each kind once, in the order above."""
    given = set(kinds)
    return [kind for kind in ERROR_KINDS_IN_ORDER if kind in given]
