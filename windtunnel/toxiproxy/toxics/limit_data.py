"""limit_data: the connection is closed once so many bytes have passed."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.core.caller_errors import CLOSED
from windtunnel.toxiproxy.toxics.base import Attribute, ObservedTry, Toxic
from windtunnel.toxiproxy.toxics.pipe import ToxicStub

_CUT_SHORT = ("connection_closed", "connection_reset", "bad_reply")


class LimitDataToxic(Toxic):
    kind = "limit_data"
    meaning = "closes the connection after so many bytes"
    main = "bytes"
    attributes = (Attribute("bytes", "bytes", 20, 1_000_000_000, "bytes that pass before the close"),)
    color = "#aaaa00"
    can_cause = CLOSED | {"bad_reply"}

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client saw the connection end early; downstream, the whole reply was longer than the limit.

        A client that takes a cut reply for a whole one (``requests``, cut inside the headers) shows
        nothing unless its caller checks the body (``bad_reply``).
        """
        cut_short = tried.client_failed and tried.client_error in _CUT_SHORT and tried.stopped(stream)
        return cut_short and (stream == "upstream" or tried.reply_bytes > attributes["bytes"])

    async def pipe(self, stub: ToxicStub) -> None:
        while (chunk := await stub.receive()) is not None:
            chunk.data = chunk.data[: max(0, stub.attributes["bytes"] - stub.bytes_passed)]
            if chunk.data:
                stub.bytes_passed += len(chunk.data)
                await stub.send(chunk)
            if stub.bytes_passed >= stub.attributes["bytes"]:
                break
        stub.close()
