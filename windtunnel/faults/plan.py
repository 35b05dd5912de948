"""What becomes of one try that has met faults: which of them acts, and the ledger of them all. Pure.

Delays add up. At most one fault changes the try, the first in the order of the set. One that changes the
reply shows only then whether it can: until then it stands in ``line``, and the first that can is the one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from windtunnel.faults.base import Act, Fault, Miss, Try, WhyNot
from windtunnel.faults.sets.fault_set import Entry

_T = TypeVar("_T")


@dataclass(eq=False)
class MetFault:
    """A fault that the try has met, and how far it came. ``delay`` is planned (s), ``delay_ms`` was added."""

    id: str
    fault: Fault
    act: Act = field(default_factory=Act)
    injected: bool = False
    why_not: WhyNot | None = None
    detail: str = ""
    delay: float = 0.0
    delay_ms: float = 0.0
    shows: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    content: bool = False

    @property
    def settled(self) -> bool:
        return self.injected or self.why_not is not None

    def miss(self, why: WhyNot) -> None:
        if not self.settled:
            self.why_not = why

    def guarded(self, function: Callable[..., _T], *arguments: object) -> _T | None:
        """What a fault's own function returns; None if it failed, which is recorded."""
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001  whatever a bug in a fault raises, the try must go on
            self.why_not, self.detail = "failed", type(error).__name__
            return None

    def delayed(self, ms: float) -> None:
        """Records a delay that was really added."""
        self.injected, self.why_not = True, None
        self.delay_ms += ms
        self.shows["delay_ms"] = round(self.delay_ms, 3)

    def changed(self, evidence: Mapping[str, Any] | None = None) -> None:
        """Records that it acts."""
        self.injected, self.why_not = True, None
        self.evidence.update(evidence or {})


@dataclass(eq=False)
class Plan:
    """``winner`` answers, changes or copies the request; ``line`` may change the reply; ``delay`` in s."""

    met_faults: list[MetFault] = field(default_factory=list)
    winner: MetFault | None = None
    line: list[MetFault] = field(default_factory=list)

    @property
    def delay(self) -> float:
        return sum(met.delay for met in self.met_faults)

    @property
    def answers(self) -> bool:
        """Whether the try is answered in the upstream's place."""
        return self.winner is not None and self.winner.act.answer is not None

    def delayed(self, seconds: float) -> None:
        """Shares out a delay that was really added."""
        planned = self.delay
        for met in self.met_faults:
            if met.delay:
                met.delayed(seconds * 1000 * met.delay / planned)

    def miss(self, why: WhyNot) -> None:
        """Nothing more will come of those whose turn has not come yet."""
        for met in self.met_faults:
            met.miss(why)


def plan(met: Iterable[tuple[Entry, Try]], *, whole: bool) -> Plan:
    """``whole``: the request that the tries show is all of it."""
    made = Plan()
    for entry, this in met:
        fault = MetFault(entry.id, entry.fault)
        if entry.fault.needs_body and not whole:
            fault.why_not = "too_large"
        else:
            act = fault.guarded(entry.fault.act, this)
            if isinstance(act, Act):
                _place(made, fault, act, whole)
            elif isinstance(act, Miss):
                fault.why_not = act.why
            elif fault.why_not is None:
                continue  # it let the try pass
        made.met_faults.append(fault)
    return made


def _place(made: Plan, met: MetFault, act: Act, whole: bool) -> None:
    met.act, met.evidence = act, dict(act.evidence)
    if act.only_delays:
        met.delay = max(act.delay, 0.0)
        met.why_not = None if met.delay else "nothing_to_change"
        return
    in_request = act.answer is not None or act.request is not None or act.copies != 1
    in_reply = act.reply is not None or act.events is not None
    if made.winner is not None or (in_request and made.line):
        met.why_not = "already_faulted"
    elif in_request and act.answer is None and not whole:
        met.why_not = "too_large"
    else:
        met.delay = max(act.delay, 0.0)
        made.winner = met if in_request else None
        if in_reply:
            made.line.append(met)
