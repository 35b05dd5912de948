"""The parts of a request's and a reply's body that the record needs: the start, as text without secrets."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable

from wirefault.dialects.http import Reply, data_of, split_events
from wirefault.dialects.mcp import McpMessage, ToolAnswer, read_message
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.http1.messages import Decoder, Unreadable
from wirefault.gateway.websocket.session import WebSocketSession

MAX_KEPT_BODY = 64 * 1024
MAX_SERVER_REPLY = 4 << 20
# A faulted reply keeps this much of its body even if the run keeps no bodies: enough to see the fault's
# effect.
MAX_FAULTED_BODY = 4096
# Kept a little longer until the record is made, so that a secret at the cut is whole when it is searched for.
FAULTED_START = MAX_FAULTED_BODY + 512
_PLAIN = ("", "identity")
_ZIPPED = ("gzip", "x-gzip", "deflate")


class BodyStart(bytearray):
    """The first ``limit`` bytes of a body, without its framing. ``cut``: the body is longer."""

    limit: int
    cut: bool
    __slots__ = ("cut", "limit")

    def __init__(self, limit: int = MAX_KEPT_BODY) -> None:
        self.limit = limit
        self.cut = False

    def keep(self, data: bytes) -> None:
        room = self.limit - len(self)
        if len(data) <= room:
            self.extend(data)
            return
        self.cut = True
        if room > 0:
            self.extend(data[:room])

    def shorten(self) -> None:
        """Cut down to the part that records keep."""
        self.limit = MAX_KEPT_BODY
        if len(self) > MAX_KEPT_BODY:
            self.cut = True
            del self[MAX_KEPT_BODY:]


def kept_text(start: BodyStart, encoding: str, redact: Callable[[str], str]) -> tuple[str, bool]:
    """Return the body as text without secrets, and whether it was cut.

    A body that is not text, or has an unknown compression, is replaced by its length.
    """
    if not start:
        return "", start.cut
    data, cut = bytes(start), start.cut
    try:
        if encoding in _ZIPPED:
            data, cut = _unzipped(data, cut)
        elif encoding not in _PLAIN:
            return f"[{encoding}, {len(data)} bytes]", True
        text = codecs.getincrementaldecoder("utf-8")().decode(data) if cut else data.decode()
    except (UnicodeDecodeError, zlib.error):
        return _binary(start), True
    return (_binary(start), True) if "\x00" in text else (redact(text), cut)


def _binary(start: BodyStart) -> str:
    return f"[binary, {len(start)} bytes{' or more' if start.cut else ''}]"


def _unzipped(data: bytes, cut: bool) -> tuple[bytes, bool]:
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 32)
    plain = inflating.decompress(data, MAX_KEPT_BODY)
    return plain, cut or bool(inflating.unconsumed_tail)


class UpstreamStart:
    """An upstream's reply before faults: its reader, once its head came, and the start of its body."""

    __slots__ = ("body_start", "reader")

    def __init__(self) -> None:
        self.body_start = BodyStart(FAULTED_START)
        self.reader: MessageReader | None = None


class ServerReply:
    """An MCP server's reply before faults changed it: up to 4 MiB of its body, read when the exchange ends.

    ``reader``: None until its head came.
    """

    __slots__ = ("_body", "reader")

    def __init__(self) -> None:
        self.reader: MessageReader | None = None
        self._body = bytearray()

    def keep(self, data: bytes) -> None:
        if len(self._body) <= MAX_SERVER_REPLY:
            self._body += data

    @property
    def body(self) -> bytes:
        """The received part of the body, decoded; empty if it is too large or unreadable."""
        if self.reader is None or len(self._body) > MAX_SERVER_REPLY:
            return b""
        try:
            return Decoder(self.reader.encoding, MAX_SERVER_REPLY).feed(bytes(self._body))
        except Unreadable:
            return b""

    @property
    def tool_answer(self) -> ToolAnswer:
        """How the first response answers a tool call; it may be here although the reply is not whole.

        Empty without a whole response, and for a reply that is too large or unreadable.
        """
        response = self.response
        return response.tool_answer if response is not None else ""

    @property
    def response(self) -> McpMessage | None:
        """The first whole response; None without one, or if the reply is too large or unreadable."""
        body = self.body
        if self.reader is None or not body:
            return None
        in_events = self.reader.message.is_event_stream
        sources = map(data_of, split_events(body)) if in_events else (body,)
        messages = (message for source in sources if (message := read_message(source)))
        return next((message for message in messages if message.kind == "response"), None)


class SentPieces:
    """All bytes sent to a model's client, with the times, up to 4 MiB; nothing if there were more.

    ``upstream``: the upstream's own reply, where a fault may have changed it and it came whole.
    """

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.upstream: Reply | None = None
        self._size = 0

    def keep(self, at: float, data: bytes) -> None:
        """``at``: when the bytes were sent, on the clock of ``perf_counter``."""
        self._size += len(data)
        if self._size <= MAX_SERVER_REPLY:
            self.pieces.append((at, data))
        else:
            self.pieces.clear()


class ReplyRecord:
    """The client's and the upstream's side of a reply, as far as the record needs them."""

    status: int | None
    upstream_status: int | None
    size: int
    """Written to the client, the header block included."""
    done: bool
    answered_leaver: bool
    """The client had a whole answer when it left: of a stream, it need not read the end."""
    reader: MessageReader | None
    """The reader of the reply that the client got; None without a head."""
    body_start: BodyStart | None
    upstream: UpstreamStart | None
    """The upstream's reply before faults; None where no fault may change it."""
    server_reply: ServerReply | None
    """MCP: the server's answer before faults."""
    pieces: SentPieces | None
    """Model links: all that the client was sent, for its token usage."""
    websocket: WebSocketSession | None
    """The messages of the WebSocket connection that it opened."""
    client_eof_at: float | None
    """When the client half-closed (``perf_counter``). A client that leaves does so, too."""
    size_before_eof: int
    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.status = self.upstream_status = self.client_eof_at = None
        self.size = self.size_before_eof = 0
        self.done = self.answered_leaver = False
        self.reader = self.body_start = self.upstream = self.server_reply = self.pieces = None
        self.websocket = None

    @property
    def encoding(self) -> str:
        """Its Content-Encoding."""
        return self.reader.encoding if self.reader is not None else ""
