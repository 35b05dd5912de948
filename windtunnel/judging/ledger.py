"""A run's fault sets held against its requests: what each armed entry met and did, and the canaries. Pure.

Every configuration that was in force counts by itself: the run's own is number 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from windtunnel.faults.catalogue import REGISTRY
from windtunnel.faults.sets.chaos_level import scaled
from windtunnel.faults.sets.fault_set import Entry, FaultSet, FaultSetError, load_set
from windtunnel.history.events import Event, Exchange, FaultMet, FaultsSet, RunStarted

Canary = Literal["held", "invalid", "unknown"]


@dataclass(frozen=True)
class EntryLedger:
    """One armed fault. ``met``: the whole requests of episodes at which it was aimed.

    ``struck``: those that its triggers and draws chose; ``why_not``: why some of them were not injected.
    ``canary``: of an entry that strikes whatever it meets, whether it did: ``unknown`` if it met nothing
    that it could change, ``invalid`` if the lab let a request pass, which ``because`` says.
    """

    configuration: int
    id: str
    fault: str
    links: list[str]
    met: int
    struck: int
    injected: int
    why_not: dict[str, int] = field(default_factory=dict)
    canary: Canary | None = None
    because: str = ""

    @property
    def name(self) -> str:
        return self.id + (f" (configuration {self.configuration})" if self.configuration else "")


@dataclass(frozen=True)
class Ledger:
    """``notes``: what keeps a configuration from being accounted for, or from doing anything, in words."""

    entries: list[EntryLedger]
    notes: list[str]

    @property
    def invalid_because(self) -> list[str]:
        """Why the run is invalid; empty if the lab injected all that it certainly had to."""
        return [f"fault {one.name}: {one.because}" for one in self.entries if one.canary == "invalid"]

    def remarks(self) -> Iterator[str]:
        """What was armed and came to nothing, in words."""
        yield from self.notes
        idle = [one for one in self.entries if not one.met]
        for text, ones in (
            ("canaries (whether they arrive is unknown)", [e for e in idle if e.canary]),
            ("faults", [e for e in idle if not e.canary]),
        ):
            if ones:
                names = ", ".join(one.name for one in ones)
                yield f"not exercised, no call met them: {text}: {names}"
        vain = [e for e in self.entries if e.struck and not e.injected and e.canary != "invalid"]
        if vain:
            names = ", ".join(f"{one.name} ({', '.join(one.why_not)})" for one in vain)
            yield f"struck, but changed nothing: {names}"


def account(started: RunStarted, events: Iterable[Event]) -> Ledger:
    """The ledger of the run that began so."""
    events = list(events)
    entries: list[EntryLedger] = []
    notes: list[str] = []
    for number, (text, level) in _configurations(started.settings, events).items():
        try:
            faults = scaled(load_set(text, f"configuration {number}", REGISTRY), level)
        except FaultSetError as error:
            notes.append(f"faults not accounted for, this version cannot read them: {error}")
        else:
            entries += _accounted(number, faults, events)
            if text and not faults.can_be_met:
                notes.append(
                    f"no fault of the fault set can strike: its chances are 0 at chaos level {level:g}"
                )
    return Ledger(entries, notes)


def _configurations(settings: Mapping[str, Any], events: Iterable[Event]) -> dict[int, tuple[str, float]]:
    """Each fault set that was in force, as text, and its chaos level."""
    found = {0: (str(settings.get("faults", "")), float(settings.get("chaos_level", 1.0)))}
    return found | {one.number: (one.faults, 1.0) for one in events if isinstance(one, FaultsSet)}


def _accounted(number: int, faults: FaultSet, events: Sequence[Event]) -> Iterator[EntryLedger]:
    exchanges = [e for e in events if isinstance(e, Exchange) and _counts(e) and e.configuration == number]
    for entry in faults.faults:
        yield _entry(number, entry, [one for one in exchanges if _aimed_at(entry, one)])


def _counts(one: Exchange) -> bool:
    return bool(one.episode) and one.identity != "mismatch" and one.request_complete


def _aimed_at(entry: Entry, one: Exchange) -> bool:
    """By link, method and path; by a header or the body, which no history holds, the gateway tells."""
    only, path = entry.only, one.target.partition("?")[0]
    if not only.by_history:
        return entry.id in one.eligible
    return (
        one.link in entry.links
        and (only.method is None or only.method.upper() == one.method)
        and (only.path is None or fnmatchcase(path, only.path))
    )


def _strike(entry: Entry, one: Exchange) -> FaultMet | None:
    return next((met for met in one.faults if met.id == entry.id), None)


def _entry(number: int, entry: Entry, met: Sequence[Exchange]) -> EntryLedger:
    strikes = [_strike(entry, one) for one in met]
    struck = [one for one in strikes if one is not None]
    injected = sum(one.injected for one in struck)
    canary, because = None, ""
    if entry.when.certain and not entry.fault.chooses:
        because = _failure(strikes)
        canary = _verdict(because, injected)
    whys = Counter(one.why_not or "" for one in struck if not one.injected)
    return EntryLedger(
        configuration=number,
        id=entry.id,
        fault=entry.fault.name,
        links=list(entry.links),
        met=len(met),
        struck=len(struck),
        injected=injected,
        why_not=dict(sorted(whys.items())),
        canary=canary,
        because=because,
    )


def _verdict(failure: str, injected: int) -> Canary:
    if failure:
        return "invalid"
    return "held" if injected else "unknown"


def _failure(strikes: Sequence[FaultMet | None]) -> str:
    """Why the lab, not the message, kept a certain fault from being injected; empty if it did not."""
    passed = sum(one is None for one in strikes)
    failed = Counter(one.why_not for one in strikes if one is not None and _lab_failed(one))
    parts = [f"{passed} of {len(strikes)} calls passed without it"] if passed else []
    return "; ".join([*parts, *(f"{count} of {len(strikes)}: {why}" for why, count in failed.items())])


def _lab_failed(one: FaultMet) -> bool:
    """Any other reason says that the fault did not apply to that message."""
    return not one.injected and (one.why_not or "").startswith(("too_large", "failed"))
