"""What the ingress records: how the connections ended that a tap has caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wirefault.core.sockets import Address

HowEnded = Literal["fin", "rst", "refused", "open"]


TapKind = Literal["namespace", "proxy"]


@dataclass(frozen=True)
class ConnectionEnded:
    """One intercepted connection, as the ingress saw it on the subject's side of the link's Toxiproxy proxy.

    ``opened`` and ``t``: its begin and its end. ``ms`` runs from the subject's first byte to the end (from
    the begin, if it sent none), ``first_byte_ms`` from there to the first byte that it got, None if it got
    none. ``sent`` and ``received``: bytes from and to the subject.
    ``ended_by`` is who ended it first, ``how`` in order (``fin``), by a reset, or that the proxy could not be
    dialled (``refused``); by nobody, and ``open``, if its attempt ended before it did. ``tls``: its first
    byte began a TLS handshake. ``host`` and ``port`` are where the subject meant to go, ``tap`` is the tap
    that it came by. ``link`` is empty where it crossed none; ``tunnelled``: it was carried past the gateway,
    so that nothing else is known of it. ``why``: what made it go past the lab or be refused, as a part of a
    sentence, where that was no fault. ``lab_failed``: the lab could not carry it, as it should have.
    """

    t: float
    link: str
    episode: str
    attempt: int
    opened: float
    ms: float
    first_byte_ms: float | None
    sent: int
    received: int
    ended_by: Literal["client", "proxy", "nobody"]
    how: HowEnded
    tls: bool
    host: str
    port: int
    tap: TapKind
    tunnelled: bool = False
    why: str = ""
    lab_failed: bool = False
    event: Literal["connection_ended"] = "connection_ended"

    @property
    def not_intercepted(self) -> str:
        """What became of it instead and why, as a sentence; empty for one that a link has carried."""
        became = "went past the lab" if self.tunnelled else "was refused"
        return f"{Address(self.host, self.port)} {became}: {self.why}" if self.why else ""
