"""What the upstream said, before any fault changed it, kept beside what the client got."""

from __future__ import annotations

from wirefault.gateway.connection.bodies import BodyStart

# enough to see what a fault did, since even a run that keeps no bodies keeps this of each struck reply
MAX_STRUCK = 4096
# kept besides until the record is made, so that a secret at the cut is whole when it is looked for
STRUCK_START = MAX_STRUCK + 512


class NaturalReply:
    """The ``start`` of the body as it came, and the reply's header ``block``, empty until it was there."""

    __slots__ = ("block", "start")

    def __init__(self) -> None:
        self.start = BodyStart(STRUCK_START)
        self.block = b""
