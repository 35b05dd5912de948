"""The header blocks of HTTP/1: read as far as the gateway must know them, else left as the bytes they are.

Pure. A request's block is validated by llhttp (httptools), which refuses what two servers might read
in two ways; a reply's block is only read, since what the upstream says is passed on as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import httptools

MAX_HEAD = 64 * 1024
# Of a block that is not whole yet: else one that comes byte by byte would be read as often as it is long.
_LOOKED_AT = 4 * 1024
LAB_PREFIX = b"windtunnel-"
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} ")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: |\r\n)")
_NOTED = frozenset(b"host content-length transfer-encoding connection expect baggage traceparent".split())
_INITIALS = frozenset(b"hHcCtTeEbBwW")  # of those and of the lab's: most lines are left at a glance
_REPLY_NOTED = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection):(.*?)(?=\r\n)", re.IGNORECASE | re.DOTALL
)
_WITHOUT_BODY = frozenset({204, 304})
_OBSERVER = object()


class BadHead(ValueError):
    """A header block that is no HTTP/1; ``status`` is the answer to it."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class RequestHead:
    """A request's header block. ``lines`` are the block's lines without their ends, the first one too.

    ``length`` is the Content-Length (0 without one). The ``*_at`` are indices into ``lines``.
    """

    method: str
    target: str
    lines: list[bytes]
    size: int
    length: int = 0
    chunked: bool = False
    keep_alive: bool = True
    expects_continue: bool = False
    upgrade: bool = False
    host_at: int = 0
    baggage_at: tuple[int, ...] = ()
    lab_at: tuple[int, ...] = ()
    trace_at: tuple[int, ...] = ()

    @property
    def baggage(self) -> str:
        """The ``baggage`` header's value, several of them joined; empty without one."""
        values = [self.lines[at].partition(b":")[2].decode("latin-1") for at in self.baggage_at]
        return ",".join(values)


def read_request(block: bytes) -> RequestHead:
    """Reads a whole header block, its empty line included. Raises ``BadHead``."""
    upgrade = _validate(block)
    lines = block[:-4].split(b"\r\n")
    parts = lines[0].split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadHead("not an HTTP/1 request line")
    head = RequestHead(parts[0].decode(), parts[1].decode("latin-1"), lines, len(block))
    head.upgrade = upgrade
    head.keep_alive = parts[2] == b"HTTP/1.1"
    for at, line in enumerate(lines):
        if line[0] in _INITIALS and at:
            name, _, value = line.partition(b":")
            name = name.lower()
            if name in _NOTED or name.startswith(LAB_PREFIX):
                _note(head, at, name, value)
    return head


def _note(head: RequestHead, at: int, name: bytes, value: bytes) -> None:
    match name:
        case b"host":
            if head.host_at:
                raise BadHead("more than one Host header")
            head.host_at = at
        case b"content-length":
            head.length = int(value)
        case b"transfer-encoding":
            head.chunked = True  # the validation has seen that chunked comes last
        case b"connection":
            head.keep_alive = _keeps_alive(value, head.keep_alive)
        case b"expect":
            head.expects_continue = value.strip().lower() == b"100-continue"
        case b"baggage":
            head.baggage_at += (at,)
        case b"traceparent":
            head.trace_at += (at,)
        case _:
            head.lab_at += (at,)


def _validate(block: bytes) -> bool:
    """Whether the request asks for an upgrade. Raises ``BadHead``."""
    parser = httptools.HttpRequestParser(_OBSERVER)
    try:
        parser.feed_data(block)
    except httptools.HttpParserUpgrade:
        return True
    except httptools.HttpParserInvalidMethodError as error:
        method = _TOKEN.match(block)
        if method is None:
            raise BadHead(str(error)) from None
        return _validate(b"POST " + block[method.end() :])  # a method that llhttp does not know
    except httptools.HttpParserError as error:
        raise BadHead(str(error)) from None
    return False


def find_head(pending: bytes) -> tuple[RequestHead | None, bytes]:
    """The next request's head, None if it is not whole yet, and the bytes after it. Raises ``BadHead``.

    What can no longer become a request is refused before it is whole.
    """
    while pending.startswith(b"\r\n"):  # tolerated between requests, as servers do
        pending = pending[2:]
    end = pending.find(b"\r\n\r\n") + 4
    if (len(pending) if end < 4 else end) > MAX_HEAD:
        raise BadHead("the header block is longer than 64 KiB", 431)
    if end >= 4:
        return read_request(pending[:end]), pending[end:]
    if pending:
        _check_start(pending[:_LOOKED_AT])
    return None, pending


def _check_start(start: bytes) -> None:
    try:
        _validate(start)
    except BadHead:
        if b" " in start or _TOKEN.match(start + b" ") is None:
            raise


def _keeps_alive(value: bytes, default: bool) -> bool:
    if value == b" keep-alive":
        return True
    tokens = [token.strip() for token in value.lower().split(b",")]
    if b"close" in tokens:
        return False
    return default or b"keep-alive" in tokens


@dataclass(slots=True)
class ReplyHead:
    """A reply's header block. ``length`` None without Content-Length; ``bodiless`` by its status."""

    status: int
    size: int
    keep_alive: bool
    length: int | None = None
    chunked: bool = False
    bodiless: bool = False


def read_reply(block: bytes) -> ReplyHead:
    """Reads a whole header block, its empty line included. Raises ``BadHead``."""
    encoded = False
    found = _STATUS.match(block)
    if found is None:
        raise BadHead("the upstream's status line is no HTTP/1")
    status = int(found[2])
    head = ReplyHead(status, len(block), found[1] == b"1")
    head.bodiless = status < 200 or status in _WITHOUT_BODY
    for name, value in _REPLY_NOTED.findall(block):
        match name.lower():
            case b"content-length":
                _note_length(head, value.strip())
            case b"transfer-encoding":
                head.chunked = value.strip().lower().endswith(b"chunked")
                encoded = True
            case _:
                head.keep_alive = _keeps_alive(value, head.keep_alive)
    if encoded:
        head.length = None  # it counts for nothing beside a transfer encoding
    return head


def _note_length(head: ReplyHead, value: bytes) -> None:
    if not value.isdigit() or head.length not in (None, int(value)):
        raise BadHead("the upstream's Content-Length cannot be read")
    head.length = int(value)
