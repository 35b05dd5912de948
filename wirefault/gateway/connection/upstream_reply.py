"""An upstream's reply on its way past the faults that may change it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from wirefault.core.digest import body_hash
from wirefault.dialects.http import Ending, Reply, Step
from wirefault.faults.base import WhyNot
from wirefault.faults.plan import MetFault
from wirefault.gateway.http1.rendering import render

MAX_BUFFERED_REPLY = 16 << 20


@dataclass(eq=False)
class UpstreamReply:
    """What is known of the upstream's reply, and the ``candidates``: the faults that may change it.

    ``shown``: as faults see it, its body left out. ``streams``: it is an event stream, and the client takes
    a reply of unknown length. ``digest`` hashes what its body carries. ``changed_by``: the fault that did.
    """

    candidates: list[MetFault]
    keep_alive: bool
    head_only: bool
    shown: Reply = field(default_factory=Reply)
    encoding: str = ""
    streams: bool = False
    digest: blake2b = field(default_factory=body_hash)
    changed_by: MetFault | None = None

    def mark_not_injected(self, why: WhyNot) -> None:
        """Records for all candidates that are not settled that they change nothing."""
        for met in self.candidates:
            met.mark_not_injected(why)

    def render(self, reply: Reply) -> bytes:
        """A changed reply as the client gets it."""
        return render(reply, keep_alive=self.keep_alive, head_only=self.head_only)


class ReplyTreatment(Protocol):
    """Turns the upstream's reply, as it comes, into steps for the client. ``ending``: the client's."""

    ending: Ending

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        """``raw`` bytes of the reply as they came, and what the body ``carried`` with them."""

    def end(self) -> Sequence[Step]:
        """The upstream's reply has come to its end."""

    def fail(self) -> Sequence[Step]:
        """The upstream's reply has broken off."""


class UnchangedReply:
    """The reply goes on as it is."""

    ending: Ending = "keep"

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        return (raw,)

    def end(self) -> Sequence[Step]:
        return ()

    fail = end
