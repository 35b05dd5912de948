"""What is known of a fault, in the end: how far it came, and which tries show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Stage = Literal["drawn", "armed", "met", "injected", "observed"]


@dataclass(frozen=True)
class TryEvidence:
    """One try that met a fault, and whether it shows the fault's signature. ``error`` is the caller's."""

    fingerprint: str
    call: int
    try_: int
    error: str | None
    shows: bool


@dataclass(frozen=True)
class FaultRecord:
    """One fault and how far it came.

    ``source``: a toxic, ``ERROR_PROB`` (``error``) or a fault set's entry ``id``. ``attributes``: a toxic's,
    or the evidence of what the gateway did. ``why_not`` says why it was not observed: ``not_exercised`` (no
    request crossed it), ``not_seen`` (the caller's record does not show it), ``unknown_kind`` (this version
    knows no such toxic), or why the gateway did not inject it.
    """

    link: str
    kind: str
    stream: str | None
    attempt: int
    attributes: Mapping[str, Any]
    source: Literal["toxic", "error", "fault"]
    drawn: bool
    armed: bool
    met: bool
    injected: bool
    observed: bool
    delivered: bool
    why_not: str | None = None
    tries: tuple[TryEvidence, ...] = ()
    id: str = ""

    @property
    def stage(self) -> Stage:
        """How far it came."""
        if self.observed:
            return "observed"
        return "injected" if self.injected else "met" if self.met else "armed" if self.armed else "drawn"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; free of times, so that it can be compared between two runs of one seed."""
        return asdict(self) | {"stage": self.stage, "tries": [asdict(one) for one in self.tries]}


@dataclass(frozen=True)
class Unexplained:
    """A try that failed although no fault of the lab explains it."""

    attempt: int
    link: str
    call: int
    try_: int
    error: str
    route: str


@dataclass(frozen=True)
class Evidence:
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
