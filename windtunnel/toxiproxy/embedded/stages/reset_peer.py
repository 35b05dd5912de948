"""reset_peer: some time after the first data, or the end of it, the connection is reset (TCP RST)."""

from __future__ import annotations

import socket
import struct

from windtunnel.toxiproxy.embedded.stages.base import Place, Stage, milliseconds

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ResetPeer(Stage):
    kind = "reset_peer"
    struct = "ResetToxic"
    fields = ("timeout",)

    @classmethod
    def on_accept(cls, sockets: tuple[socket.socket, socket.socket]) -> None:
        # As in the real server a connection that was open before the toxic is closed, not reset.
        for end in sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    async def run(self, place: Place) -> None:
        timeout = milliseconds(self.attributes["timeout"])
        await place.receive()
        await place.sleep_firmly(timeout)
        place.close()
