"""What a server of MCP answered to a message by itself, before any fault changed it."""

from __future__ import annotations

from wirefault.dialects.http import data_of, split_events
from wirefault.dialects.mcp import ToolAnswer, read_message
from wirefault.gateway.connection.sent_pieces import MAX_KEPT
from wirefault.gateway.http1.messages import Decoder, Unreadable, content_encoding, reply_of


class ServerReply:
    """Keeps what the upstream's reply carries, up to 4 MiB, to be read once no more of it comes.

    ``block`` is the reply's header block, empty without one.
    """

    def __init__(self) -> None:
        self.block = b""
        self._carried = bytearray()

    def keep(self, data: bytes) -> None:
        """More of what the body carries."""
        if len(self._carried) <= MAX_KEPT:
            self._carried += data

    @property
    def tool_answer(self) -> ToolAnswer:
        """By its first response, which may be there although the rest of the reply is not.

        Empty if no response was seen whole, and for a reply that is too large or cannot be read.
        """
        if not self.block or len(self._carried) > MAX_KEPT:
            return ""
        try:
            body = Decoder(content_encoding(self.block), MAX_KEPT).feed(bytes(self._carried))
        except Unreadable:
            return ""
        in_events = reply_of(self.block).is_event_stream
        sources = map(data_of, split_events(body)) if in_events else (body,)
        messages = (message for source in sources if (message := read_message(source)))
        return next((message.tool_answer for message in messages if message.kind == "response"), "")
