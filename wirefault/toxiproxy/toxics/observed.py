"""What is known of a try, or of a connection, when it is asked whether it shows a toxic. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# A timer may fire early and a clock may be coarse: "about M" is at least this share of M.
ABOUT = 0.9
# A delay below this cannot be told from the overhead of a healthy link.
NOISE_MS = 10.0


@dataclass(frozen=True)
class ObservedTry:
    """One HTTP try, as its caller and the gateway behind the proxy recorded it. Times in ms.

    ``client_ms``: duration of the client's try; ``client_failed``: it got no valid reply;
    ``client_error``: one of read_timeout, connect_timeout, connection_refused, connection_closed,
    connection_reset, bad_reply, or None; ``client_timeout_ms``: the client's own timeout (0: none).
    ``gateway_ms``: at the gateway, from the first request byte to the last reply byte, or to the end of a try
    without a reply, as far as the client still waited; 0 where no request came;
    ``reply_bytes``: size of the reply that the gateway wrote; ``gateway_client_left``: for the gateway, its
    client was gone before the reply was complete. ``client_waited``: its connection was refused, and it
    waited until it had one. ``tls``: ``fresh`` where the try's TLS handshake crossed the toxic before it,
    ``kept`` where its connection had carried another try, empty for plain HTTP. ``in_progress``: it was under
    way when the toxic began.
    """

    client_ms: float
    client_failed: bool
    client_error: str | None
    client_timeout_ms: float
    gateway_ms: float
    gateway_complete_request: bool
    gateway_complete_reply: bool
    reply_bytes: int
    client_waited: bool = False
    gateway_client_left: bool = False
    tls: Literal["", "fresh", "kept"] = ""
    in_progress: bool = False

    @property
    def patience_ms(self) -> float:
        """The client's timeout; infinite where it has none."""
        return self.client_timeout_ms if self.client_timeout_ms > 0 else math.inf

    @property
    def outside_gateway_ms(self) -> float:
        """The part of the client's time that was not spent at the gateway."""
        return self.client_ms - self.gateway_ms

    @property
    def gave_up(self) -> bool:
        """Whether the client's own time limit ended it; many count a TLS handshake as connecting."""
        waits_for = ("read_timeout", "connect_timeout") if self.tls == "fresh" else ("read_timeout",)
        return self.client_error in waits_for

    @property
    def crossings(self) -> int:
        """How often each stream has to cross the toxic one after the other: a handshake is once more."""
        return 2 if self.tls == "fresh" else 1

    def stopped(self, stream: str) -> bool:
        """Whether the gateway's record fits a toxic that stopped that stream: upstream no whole request
        arrived; downstream a whole reply was written, or the connection was cut while the client waited.

        A stopped handshake keeps the request from the gateway, whichever stream it was stopped in."""
        if stream == "upstream" or (self.tls == "fresh" and not self.gateway_complete_request):
            return not self.gateway_complete_request
        cut = self.gateway_client_left and self.client_error in ("connection_closed", "connection_reset")
        return self.gateway_complete_reply or cut

    def gave_up_on_request(self) -> bool:
        """Whether the client timed out before the gateway had the whole request."""
        return self.gave_up and self.stopped("upstream")

    def delayed_by(self, expected_ms: float, noise_ms: float = 0.0) -> bool:
        """Whether about that much time was lost outside the gateway, as far as the client waited.

        A delay of 0, or below ``noise_ms``, shows nothing. Of a reply that was complete at the gateway, and
        that the client gave up on, only what was left of the client's time can show.
        """
        patience_ms = self.patience_ms
        if self.gave_up and self.gateway_complete_reply:
            patience_ms -= self.gateway_ms
        visible_ms = min(expected_ms, patience_ms)
        return visible_ms > 0 and visible_ms >= noise_ms and self.outside_gateway_ms >= ABOUT * visible_ms


@dataclass(frozen=True)
class ObservedConnection:
    """One connection through the link's proxy, as the front recorded it on the subject's side. Times in ms.

    ``ms`` runs from the subject's first byte to the end, ``first_byte_ms`` from there to the first byte that
    it got, None if it got none. ``sent`` and ``received``: bytes from and to the subject. ``by_proxy``: the
    subject did not end it. ``how``: in order (``fin``), by a reset, the proxy could not be dialled, or it was
    still open when its attempt ended.
    Of the requests that the gateway had on the link meanwhile: whether it got one whole, whether it wrote a
    whole reply, and how long the slowest took.
    """

    ms: float
    first_byte_ms: float | None
    sent: int
    received: int
    by_proxy: bool
    how: Literal["fin", "rst", "refused", "open"]
    tls: bool
    gateway_complete_request: bool = False
    gateway_complete_reply: bool = False
    gateway_ms: float = 0.0

    def stopped(self, stream: str) -> bool:
        """Whether the subject asked and got nothing, by a toxic that stopped that stream.

        The gateway answers a TLS handshake by itself and at once: no byte of it means that none could pass.
        Without TLS its record tells in which stream they stopped.
        """
        if not self.sent or self.received:
            return False
        return self.tls or (
            self.gateway_complete_reply if stream == "downstream" else not self.gateway_complete_request
        )

    def delayed_by(self, expected_ms: float) -> bool:
        """Whether the first byte came about that much later than the gateway took for it; or none came, as
        far as the subject waited for it. The gateway takes no time for a handshake."""
        own_ms = 0.0 if self.tls else self.gateway_ms
        if self.first_byte_ms is not None:
            return expected_ms > 0 and self.first_byte_ms - own_ms >= ABOUT * expected_ms
        waited_ms = min(expected_ms, self.ms)
        asked = self.sent > 0 and not self.by_proxy
        return asked and waited_ms >= NOISE_MS and self.ms - own_ms >= ABOUT * waited_ms
