"""reset_peer: some time after the first data, or the end of it, the connection is reset (TCP RST)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from proxy_manager.embedded.toxics.base import Chunk, Context, Output, Stage, Timer, milliseconds

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ResetPeer(Stage):
    kind = "reset_peer"
    fields = ("timeout",)

    def __init__(self, attributes: Mapping[str, int], context: Context, output: Output) -> None:
        super().__init__(attributes, context, output)
        self._timer: Timer | None = None

    @classmethod
    def on_accept(cls, sockets: tuple[socket.socket, socket.socket]) -> None:
        # As in the real server a connection that was open before the toxic is closed, not reset.
        for end in sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    def feed(self, chunk: Chunk) -> None:
        if self._timer is None and not self.closed:
            when = self.context.now() + milliseconds(self.attributes["timeout"])
            self._timer = self.context.call_at(when, self.close)

    def feed_eof(self) -> None:
        self.feed(Chunk(b"", self.context.now()))

    def remove(self) -> bool:
        return self._timer is None

    def kill(self) -> None:
        super().kill()
        if self._timer is not None:
            self._timer.cancel()
