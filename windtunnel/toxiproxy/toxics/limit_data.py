"""limit_data: the connection is closed once so many bytes have passed."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import Attribute, ObservedTry, Toxic

CUT = ("connection_closed", "connection_reset", "bad_reply")


class LimitData(Toxic):
    kind = "limit_data"
    meaning = "closes the connection after so many bytes"
    main = "bytes"
    attributes = (Attribute("bytes", "bytes", 20, 1_000_000_000, "bytes that pass before the close"),)

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """The client saw the connection end early; downstream, the whole reply was longer than the limit.

        A client that takes a cut reply for a whole one (``requests``, cut inside the headers) shows
        nothing unless its caller checks the body (``bad_reply``).
        """
        cut = sighting.client_failed and sighting.client_error in CUT and sighting.crossed(stream)
        return cut and (stream == "upstream" or sighting.reply_bytes > attributes["bytes"])
