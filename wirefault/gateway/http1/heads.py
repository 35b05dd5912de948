"""Reads the header blocks of HTTP/1 as far as the gateway must know them; their bytes are kept. Pure.

llhttp (httptools) validates requests: it refuses those that two servers might read in two ways. Replies are
only read, since the upstream's bytes are passed on in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import httptools

from wirefault.core.redaction import credential_in_query

MAX_HEAD = 64 * 1024
# Validated part of an incomplete block: else a block that comes byte by byte would be read once per byte.
_CHECKED_START = 4 * 1024
LAB_PREFIX = b"wirefault-"
IDEMPOTENCY_KEYS = (b"idempotency-key", b"x-idempotency-key")
CONTENT_ENCODING = b"content-encoding"
CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")
RETRY_COUNTS = (b"x-stainless-retry-count", b"amz-sdk-request")
OPERATION = b"x-amz-target"  # of the services of AWS, whose paths are all /
_BLANK_LINES = re.compile(rb"(?:\r\n)*+")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} ")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: |\r\n)")
# second letters of the noted names: most lines are skipped by this letter alone
_SECOND_LETTERS = frozenset(b"oOrRxXaAiIdDuUmM-")
_KEEP_ALIVE = b"Connection: keep-alive"  # redundant, and sent by most clients
# a line that begins with white space continues the one before
_REPLY_NOTED = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection)[ \t]*:(.*?)(?=\r\n(?![ \t]))",
    re.IGNORECASE | re.DOTALL,
)
_SPACE = b" \t\r\n"
_SIGNING_KEY = re.compile(r"\AAWS4-\S+ Credential=([^/,\s]+)")
_MAX_DIGITS = 18
_UNREADABLE = -1
_WITHOUT_BODY = frozenset({204, 304})
_OBSERVER = object()
_NONE_NOTED: Mapping[bytes, str] = MappingProxyType({})


class BadHead(ValueError):
    """A header block that is not valid HTTP/1; ``status`` is the answer to it."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class RequestHead:
    """A request's header block. The ``*_at`` are indices into ``lines``."""

    method: str
    target: str
    lines: list[bytes]
    """All lines without their ends, the request line included."""
    size: int
    length: int
    """Content-Length; 0 without one."""
    encoded: bool
    chunked: bool
    keep_alive: bool
    has_close: bool
    expects_continue: bool
    upgrade: bool
    host_at: int
    baggage: bytes
    """Value of the ``baggage`` header, several joined by commas; empty without one."""
    baggage_at: tuple[int, ...]
    trace_at: tuple[int, ...]
    lab_at: tuple[int, ...]
    noted: Mapping[bytes, str]
    """Headers that go into the record, by their names in lower case."""
    __slots__ = tuple(__annotations__)

    def __init__(self, method: str, target: str, lines: list[bytes], size: int) -> None:
        self.method = method
        self.target = target
        self.lines = lines
        self.size = size
        self.length = self.host_at = 0
        self.encoded = self.chunked = self.has_close = self.expects_continue = self.upgrade = False
        self.keep_alive = True
        self.baggage = b""
        self.baggage_at = self.trace_at = self.lab_at = ()
        self.noted = _NONE_NOTED


def read_request(block: bytes) -> RequestHead:
    """Read a whole header block, its empty line included. Raises ``BadHead``."""
    upgrade = _validate(block)
    lines = block[:-4].split(b"\r\n")
    method, _, rest = lines[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    is_1_1 = version == "HTTP/1.1"
    if not (is_1_1 or version == "HTTP/1.0"):
        raise BadHead("not an HTTP/1 request line")
    head = RequestHead(method, target, lines, len(block))
    if not is_1_1:
        head.keep_alive = False
    for at, line in enumerate(lines):
        if line[1] in _SECOND_LETTERS and at and not (is_1_1 and line == _KEEP_ALIVE):
            name, _, value = line.partition(b":")
            note = _NOTES.get(name.lower())
            if note is not None:
                note(head, at, value)
            elif name[: len(LAB_PREFIX)].lower() == LAB_PREFIX:
                head.lab_at += (at,)
    if upgrade:
        if head.encoded and not head.chunked:  # llhttp checks this in all other requests
            raise BadHead("a Transfer-Encoding without chunked at its end")
        head.upgrade = is_1_1 or method == "CONNECT"
    if not is_1_1:  # HTTP/1.0 has neither: RFC 9110, 10.1.1, and RFC 9112, 6.1
        head.expects_continue = False
        head.keep_alive = head.keep_alive and not head.encoded
    return head


def _note_host(head: RequestHead, at: int, value: bytes) -> None:
    if head.host_at:
        raise BadHead("more than one Host header")
    head.host_at = at


def _note_request_length(head: RequestHead, at: int, value: bytes) -> None:
    head.length = int(value)


def _note_encoding(head: RequestHead, at: int, value: bytes) -> None:
    if head.chunked:
        raise BadHead("a Transfer-Encoding after chunked")
    head.encoded = True
    head.chunked = _members(value)[-1] == b"chunked"


def _note_connection(head: RequestHead, at: int, value: bytes) -> None:
    _note_options(head, value)


def _note_expect(head: RequestHead, at: int, value: bytes) -> None:
    if b"100-continue" in _members(value):
        head.expects_continue = True


def _note_baggage(head: RequestHead, at: int, value: bytes) -> None:
    head.baggage = head.baggage + b"," + value if head.baggage_at else value
    head.baggage_at += (at,)


def _note_trace(head: RequestHead, at: int, value: bytes) -> None:
    head.trace_at += (at,)


def _note_for_record(head: RequestHead, at: int, value: bytes) -> None:
    name = head.lines[at].partition(b":")[0].lower()
    head.noted = {**head.noted, name: value.decode("latin-1").strip()}


_NOTES: Mapping[bytes, Callable[[RequestHead, int, bytes], None]] = {
    b"host": _note_host,
    b"content-length": _note_request_length,
    b"transfer-encoding": _note_encoding,
    b"connection": _note_connection,
    b"expect": _note_expect,
    b"baggage": _note_baggage,
    b"traceparent": _note_trace,
    **dict.fromkeys(
        (*IDEMPOTENCY_KEYS, CONTENT_ENCODING, *CREDENTIALS, *RETRY_COUNTS, OPERATION), _note_for_record
    ),
}


def _validate(block: bytes) -> bool:
    """Return whether the request asks for an upgrade. Raises ``BadHead``."""
    parser = httptools.HttpRequestParser(_OBSERVER)
    try:
        parser.feed_data(block)
    except httptools.HttpParserUpgrade:
        return True
    except httptools.HttpParserInvalidMethodError as error:
        method = _TOKEN.match(block)
        if method is None:
            raise BadHead(str(error)) from None
        return _validate(b"POST " + block[method.end() :])  # a method unknown to llhttp
    except httptools.HttpParserError as error:
        raise BadHead(str(error)) from None
    return False


def find_head(pending: bytes) -> tuple[RequestHead | None, bytes]:
    """Return the next request's head (None if it is not whole yet) and the rest. Raises ``BadHead``.

    Bytes that cannot become a request are refused before the block is whole.
    """
    if pending[:2] == b"\r\n":  # tolerated between requests, as servers do
        pending = pending[_BLANK_LINES.match(pending).end() :]  # type: ignore[union-attr]
    end = pending.find(b"\r\n\r\n") + 4
    size = len(pending)
    if (size if end < 4 else end) > MAX_HEAD:
        raise BadHead("the header block is longer than 64 KiB", 431)
    if end >= 4:
        return read_request(pending if end == size else pending[:end]), pending[end:]
    if pending:
        _check_start(pending[:_CHECKED_START])
    return None, pending


def _check_start(start: bytes) -> None:
    try:
        _validate(start)
    except BadHead:
        if b" " in start or _TOKEN.match(start + b" ") is None:
            raise


def _members(value: bytes) -> list[bytes]:
    return [member.strip(_SPACE) for member in value.lower().split(b",")]


def _note_options(head: RequestHead | ReplyHead, value: bytes) -> None:
    """Read a ``Connection`` header. ``close`` wins over any other option or header (RFC 9112, 9.3)."""
    options = _members(value)
    if b"close" in options:
        head.has_close = True
        head.keep_alive = False
    elif b"keep-alive" in options and not head.has_close:
        head.keep_alive = True


class ReplyHead:
    """A reply's header block. ``length`` None without Content-Length; ``bodiless`` by its status."""

    __slots__ = ("bodiless", "chunked", "has_close", "keep_alive", "length", "size", "status")

    def __init__(self, status: int, size: int, keep_alive: bool) -> None:
        self.status = status
        self.size = size
        self.keep_alive = keep_alive
        self.length: int | None = None
        self.chunked = self.has_close = False
        self.bodiless = status < 200 or status in _WITHOUT_BODY


def read_reply(block: bytes) -> ReplyHead:
    """Read a whole header block, its empty line included. Raises ``BadHead``."""
    status_line = _STATUS.match(block)
    if status_line is None:
        raise BadHead("the upstream's status line is not HTTP/1")
    version, status = status_line.groups()
    head = ReplyHead(int(status), len(block), version == b"1")
    encoding = b""
    for name, value in _REPLY_NOTED.findall(block):
        match name.lower():
            case b"content-length":
                head.length = _length(value.strip(_SPACE), head.length)
            case b"transfer-encoding":
                encoding = next((coding for coding in reversed(_members(value)) if coding), encoding)
            case _:
                _note_options(head, value)
    if encoding:
        head.length = None  # a transfer encoding overrides it
        head.chunked = encoding == b"chunked"
        head.keep_alive = head.keep_alive and version == b"1"  # HTTP/1.0 has none: RFC 9112, 6.1
    elif head.length == _UNREADABLE:
        raise BadHead("the upstream's Content-Length cannot be read")
    return head


def _length(value: bytes, before: int | None) -> int:
    """Read a Content-Length; it must agree with one that came before it."""
    length = int(value) if value.isdigit() and len(value) <= _MAX_DIGITS else _UNREADABLE
    return length if before in (None, length) else _UNREADABLE


def sdk_retries(noted: Mapping[bytes, str]) -> int:
    """Return how often the client's SDK has sent the request before, by its own header."""
    stainless, amazon = (noted.get(name, "") for name in RETRY_COUNTS)
    if stainless.isdecimal():
        return int(stainless[:4])
    attempt = amazon.partition("attempt=")[2].partition(";")[0].strip()
    return max(int(attempt[:4]) - 1, 0) if attempt.isdecimal() else 0


def client_credential(head: RequestHead) -> str:
    """Return the client's credential without its scheme; empty without any."""
    for name in CREDENTIALS if head.noted else ():
        if value := head.noted.get(name):
            key = _SIGNING_KEY.search(value)  # AWS: each request has a signature of its own
            return key[1] if key else value.rpartition(" ")[2]
    return credential_in_query(head.target) if "?" in head.target else ""


def read_header(head: RequestHead, name: str) -> str:
    """Return the value of a header by its name in lower case; empty without it."""
    for line in head.lines[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name.encode():
            return value.decode("latin-1").strip()
    return ""
