"""The event of the ingress, which accepts intercepted connections."""

from __future__ import annotations

from typing import Literal

from wirefault.core.sockets import Address
from wirefault.history.lines import BaseEvent, Clock

HowEnded = Literal["fin", "rst", "refused", "unaccepted", "unresolved", "open"]


TapKind = Literal["namespace", "proxy"]


class ConnectionEnded(BaseEvent, frozen=True, tag="connection_ended"):
    """One intercepted connection, from the ingress's view on the subject's side of the link's proxy."""

    t: Clock
    link: str  # empty if it crossed no link
    episode: str
    attempt: int
    opened: Clock
    ms: Clock  # from the subject's first byte (or the opening, if it sent none) to the end
    first_byte_ms: Clock | None  # from there to the first byte that the subject received
    sent: int  # bytes from the subject
    received: int  # bytes to the subject
    ended_by: Literal["client", "proxy", "neither"]  # neither, and ``open``: the attempt ended first
    # refused: the proxy could not be dialled; unaccepted: it did not accept in time; unresolved: its name did
    # not resolve
    how: HowEnded
    tls: bool  # its first byte began a TLS handshake
    host: str  # the subject's destination
    port: int
    tap: TapKind
    tunnelled: bool = False  # bypassed the gateway, so that nothing else is known about it
    why: str = ""  # why it bypassed the lab or was refused without a fault, as part of a sentence
    lab_failed: bool = False  # the lab should have carried it, but could not
    last_byte_ms: Clock | None = None  # as first_byte_ms, to the last byte

    @property
    def not_intercepted(self) -> str:
        """Return a sentence with the connection's destination and reason; empty if a link carried it."""
        became = "bypassed the lab" if self.tunnelled else "was refused"
        return f"{Address(self.host, self.port)} {became}: {self.why}" if self.why else ""
