"""What a client speaks, told from the first bytes that it sends. Pure."""

from __future__ import annotations

import re
from enum import Enum, auto

TLS_RECORD = b"\x16"
_CLIENT_HELLO = 1
_SERVER_NAME, _HOST_NAME = 0, 0
_RECORD_HEADER = 5
_LONGEST_START = 16 * 1024
# a method, and a target as a client sends it to a server, to a proxy, or to begin HTTP/2 (``PRI *``)
_HTTP = re.compile(rb"[A-Z][A-Z-]{2,19} (?:/|\*|https?://)")
_HTTP_PREFIX = re.compile(rb"[A-Z][A-Z-]{0,19}(?: (?:h(?:t(?:t(?:p(?:s?(?::/?)?)?)?)?)?)?)?")


class Spoken(Enum):
    """``UNDECIDED``: too few bytes to tell. ``OTHER`` is neither of the two that a link can speak."""

    UNDECIDED = auto()
    TLS = auto()
    HTTP = auto()
    OTHER = auto()


def spoken(start: bytes) -> Spoken:
    """What the client speaks. A TLS client is only told when its whole ClientHello is there, for its name."""
    if start[:1] == TLS_RECORD:
        whole = len(start) >= _LONGEST_START or len(start) >= _RECORD_HEADER + _record_length(start)
        return Spoken.TLS if whole and len(start) > _RECORD_HEADER else Spoken.UNDECIDED
    if _HTTP.match(start):
        return Spoken.HTTP
    return Spoken.UNDECIDED if not start or _HTTP_PREFIX.fullmatch(start) else Spoken.OTHER


def _record_length(start: bytes) -> int:
    return int.from_bytes(start[3:5], "big")


def server_name(client_hello: bytes) -> str:
    """The host that a TLS client asks for by SNI; empty if it names none.

    Bytes that are no ClientHello name none. Only the first record is read, where the name stands.
    """
    try:
        return _server_name(_Reader(client_hello[_RECORD_HEADER:]))
    except (IndexError, UnicodeDecodeError):
        return ""


def _server_name(record: _Reader) -> str:
    if record.number(1) != _CLIENT_HELLO:
        return ""
    hello = _Reader(record.block(3))
    hello.skip(2 + 32)  # the version and the random bytes
    hello.block(1)  # the session
    hello.block(2)  # the ciphers
    hello.block(1)  # the compressions
    extensions = _Reader(hello.block(2))
    while extensions.left:
        kind, extension = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = _Reader(_Reader(extension).block(2))
            return names.block(2).decode("ascii").lower() if names.number(1) == _HOST_NAME else ""
    return ""


class _Reader:
    """Reads a TLS message from its front. Raises ``IndexError`` where it is too short."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def skip(self, size: int) -> bytes:
        if len(self.left) < size:
            raise IndexError
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.skip(size), "big")

    def block(self, length_size: int) -> bytes:
        """What follows its own length."""
        return self.skip(self.number(length_size))
