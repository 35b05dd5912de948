"""Fault sets scaled as a whole (``CHAOS_LEVEL``), and how often each fault of a set truly acts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.dialects.http import Request
from windtunnel.faults.base import Act, Fault, Try
from windtunnel.faults.sets.fault_set import Entry, FaultSet
from windtunnel.faults.sets.selectors import Only
from windtunnel.faults.sets.triggers import When
from windtunnel.links.catalog import LINKS


def scaled(faults: FaultSet, level: float) -> FaultSet:
    """Every probability times ``level``: 1 is as written, 0 is none. Those without a chance go."""
    if level == 1:
        return faults
    entries = [
        replace(e, when=e.when.model_copy(update={"probability": e.when.probability * level}))
        for e in faults.faults
    ]
    toxics = [replace(t, probability=t.probability * level) for t in faults.toxics]
    return FaultSet(
        tuple(e for e in entries if e.when.probability), tuple(t for t in toxics if t.probability)
    )


@dataclass(frozen=True)
class Marginal:
    """The share of a link's tries on which an entry acts, among those that its conditions allow.

    At most one fault changes a try, the first in the set's order that the try meets. ``low`` and ``high``
    differ where an earlier entry has conditions of its own, since these may hold on the same tries or not.
    """

    id: str
    kind: str
    link: str
    low: float
    high: float
    conditions: str


def marginals(faults: FaultSet) -> list[Marginal]:
    """One for each entry on each of its links, in the set's order."""
    by_link = [marginal for link in LINKS for marginal in _on_link(link.name, faults.faults)]
    order = {entry.id: number for number, entry in enumerate(faults.faults)}
    return sorted(by_link, key=lambda marginal: order[marginal.id])


def _on_link(link: str, entries: Iterable[Entry]) -> Iterator[Marginal]:
    least = most = 1.0  # the share of tries that no earlier entry has changed
    for entry in entries:
        if link not in entry.links:
            continue
        chance = entry.when.probability
        conditions = conditions_of(entry.when, entry.only)
        yield Marginal(entry.id, entry.fault.name, link, chance * least, chance * most, conditions)
        if not only_delays(entry.fault):
            least *= 1 - chance
            most *= 1 if conditions or entry.fault.chooses else 1 - chance


def only_delays(fault: Fault) -> bool:
    """Whether it only delays a try, so that another fault may act on it too."""
    probe = Try("model", "openai", Request(), "", 1, 1, 1, 1, lambda _: 0.5)
    act = fault.act(probe)
    return isinstance(act, Act) and act.only_delays


def conditions_of(when: When, only: Only) -> str:
    """Triggers and selectors as they stand in a file, on one line; empty without any."""
    given = when.model_dump(mode="json", exclude_defaults=True)
    given.pop("probability", None)
    given |= only.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return ", ".join(name if value is True else f"{name} {_plain(value)}" for name, value in given.items())


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_word(item)}" for name, item in value.items())
    if isinstance(value, list):  # a span
        first, last = value
        return str(first) if first == last else f"{first}-{'' if last is None else last}"
    return _word(value)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
