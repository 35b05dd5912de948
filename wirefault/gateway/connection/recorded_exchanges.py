"""What crosses an upstream connection, read along to be recorded."""

from __future__ import annotations

from collections.abc import Callable

from wirefault.cassettes.cassettes import CassetteRecorder
from wirefault.dialects.http import Reply, Request
from wirefault.gateway.connection.upstream_reply import MAX_BUFFERED_REPLY
from wirefault.gateway.http1.framing import NO_BODY, Body, ChunkedBody, SizedBody
from wirefault.gateway.http1.heads import RequestHead, find_head
from wirefault.gateway.http1.messages import Unreadable, content_encoding, decoded, reply_of
from wirefault.gateway.http1.reply_reader import ReplyReader

# A model's server says 400 or 422 to what the model wrote; other errors are about keys, limits and outages.
_KEPT_ERRORS = (400, 422)


class SentRequests:
    """Puts requests together again; their paths without ``base_path``, which is one server's own."""

    def __init__(self, base_path: str | None) -> None:
        self._base_path = base_path or ""
        self._head: RequestHead | None = None
        self._framing: Body = NO_BODY
        self._body = bytearray()

    def feed(self, data: bytes) -> Request | None:
        """The request that these bytes complete. A header block is always sent in one piece."""
        if self._head is None:
            self._head, data = find_head(data)
            assert self._head is not None
            keep = self._body.extend
            self._framing = ChunkedBody(keep) if self._head.chunked else SizedBody(self._head.length, keep)
        self._framing.feed(data)
        if not self._framing.done:
            return None
        head, body, self._head = self._head, bytes(self._body), None
        self._body.clear()
        return Request((), body, head.method, head.target.removeprefix(self._base_path))


class RecordedExchanges:
    """Gives the recorder each whole reply to a whole request, as the model's server sent it."""

    def __init__(self, recorder: CassetteRecorder, base_path: str | None) -> None:
        self._recorder = recorder
        self._requests = SentRequests(base_path)
        self._keep: Callable[[Reply], None] | None = None
        self._reply = ReplyReader("", False, False)
        self._body = bytearray()

    @property
    def reply_expected(self) -> bool:
        """Whether a request is whole, and its reply is not."""
        return self._keep is not None

    def sent(self, data: bytes) -> None:
        request = None if self.reply_expected else self._requests.feed(data)
        if request is not None:
            self._keep = self._recorder.ask(request)
            self._body.clear()
            self._reply = ReplyReader(request.method, False, False, self._body.extend)

    def received(self, data: bytes) -> None:
        if self.reply_expected:
            self._reply.feed(data)
            if self._reply.done:
                self._on_reply()

    def closed(self, *, in_order: bool) -> None:
        if self.reply_expected and in_order and self._reply.ends_by_close:
            self._on_reply()
        self._keep = None

    def _on_reply(self) -> None:
        keep, self._keep = self._keep, None
        block, head = self._reply.block, self._reply.head
        if keep is None or head is None or not (head.status < 300 or head.status in _KEPT_ERRORS):
            return
        try:
            keep(reply_of(block, decoded(bytes(self._body), content_encoding(block), MAX_BUFFERED_REPLY)))
        except (OSError, Unreadable) as error:
            self._recorder.failure = f"a cassette cannot be written: {error}"
