"""Each pair of an experiment's faults together, in few rows: a covering array. Pure.

A fault on one of its links is a factor of the array; its levels are its doses, and off. Each row is a set of
faults, and any two levels of any two factors are together in at least one row (D. M. Cohen, S. R. Dalal,
M. L. Fredman and G. C. Patton, "The AETG System", IEEE Transactions on Software Engineering 23 (1997),
437-444). Faults can hide each other, so the pairs that were delivered are counted, not the planned ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.search.faults import CHANCES, NumberField, with_faults, with_number
from wirefault.experiments.search.trials import is_failure
from wirefault.faults.sets.fault_set import Entry, FaultSet, ToxicEntry
from wirefault.faults.sets.presets import read_canonical
from wirefault.lab.extra import NotInstalled
from wirefault.settings.settings import Settings

Row = Mapping[str, float | None]
"""The faults of a row by id, each with its dose; None: as written."""
_Fault = TypeVar("_Fault", Entry, ToxicEntry)
_MAX_FACTORS = 60


@dataclass(frozen=True)
class Factor:
    """A fault on one link, and the doses that it is tried at."""

    id: str
    field: str = ""
    """The number that has the doses; empty: the fault is tried as written."""
    doses: tuple[float, ...] = ()

    def text(self, dose: float | None) -> str:
        """The fault at that dose, for people."""
        return self.id if dose is None else f"{self.id} {self.field} {dose:g}"


def by_link(settings: Settings) -> tuple[Settings, Mapping[str, tuple[str, ...]]]:
    """Settings in which a fault on several links is one fault for each; with the new ids of each old one.

    Faults drawn ``together`` stay one fault. Raises ``ValueError`` for settings that draw faults.
    """
    if drawn := [name for name in CHANCES if getattr(settings, name)]:
        raise ValueError(f"{drawn[0]} draws from all faults: write the faults one by one")
    whole = read_canonical(settings.faults, settings.chaos_level)
    ids: dict[str, tuple[str, ...]] = {}
    faults = tuple(part for entry in whole.faults for part in _parts(entry, ids))
    toxics = tuple(part for entry in whole.toxics for part in _parts(entry, ids))
    split = settings.model_copy(update={"faults": FaultSet(faults, toxics).dump(), "chaos_level": 1.0})
    return split, ids


def _parts(entry: _Fault, ids: dict[str, tuple[str, ...]]) -> Iterator[_Fault]:
    alone = len(entry.links) < 2 or entry.dose.together
    parts = [entry] if alone else [replace(entry, links=(on,), id=f"{entry.id}@{on}") for on in entry.links]
    ids[entry.id] = tuple(part.id for part in parts)
    yield from parts


def factors_of(
    ids: Mapping[str, Sequence[str]], doses: Mapping[NumberField, Sequence[float]]
) -> list[Factor]:
    """One factor for each fault and link. ``ids``: see ``by_link``; ``doses`` by the field that has them.

    Raises ``ValueError``.
    """
    by_fault: dict[str, tuple[str, tuple[float, ...]]] = {}
    for number, values in doses.items():
        if number.fault in by_fault:
            raise ValueError(f"{number.fault} has doses of {by_fault[number.fault][0]} already")
        by_fault[number.fault] = number.name, tuple(dict.fromkeys(values))
    factors = [Factor(id, *by_fault.get(fault, ())) for fault, parts in ids.items() for id in parts]
    if len(factors) < 2:
        raise ValueError("has one fault on one link; a pair needs two")
    if len(factors) > _MAX_FACTORS:
        raise ValueError(f"has {len(factors)} faults by link, more than {_MAX_FACTORS}: name fewer links")
    return factors


def covering_rows(factors: Sequence[Factor]) -> list[dict[str, float | None]]:
    """Return rows that have each pair of levels of two factors; a level is a dose, or off.

    The row without any fault is left out. Raises ``NotInstalled``.
    """
    try:
        from allpairspy import AllPairs
    except ModuleNotFoundError as error:
        if error.name != "allpairspy":
            raise
        raise NotInstalled("search pairs needs allpairspy: pip install 'wirefault[search]'") from None
    # a level is a number, since the library compares values
    levels = [list(range(len(_doses(factor)) + 1)) for factor in factors]
    rows = (
        {factor.id: _doses(factor)[level - 1] for factor, level in zip(factors, chosen, strict=True) if level}
        for chosen in AllPairs(levels)
    )
    return [row for row in rows if row]


def _doses(factor: Factor) -> Sequence[float | None]:
    return factor.doses or (None,)


def with_row(settings: Settings, factors: Sequence[Factor], row: Row) -> Settings:
    """The settings with only the faults of the row, at its doses. Raises ``ValueError`` for a bad dose."""
    part = with_faults(settings, row.keys())
    for factor in factors:
        if (dose := row.get(factor.id)) is not None:
            part = with_number(part, NumberField(factor.id, factor.field, dose), dose)
    return part


@dataclass(frozen=True)
class RowResult:
    """A row, and what its episodes did."""

    name: str
    """Of its arm."""
    faults: tuple[str, ...]
    episodes: int
    judged: int
    """Episodes whose outcome is known."""
    failed: int


@dataclass(frozen=True)
class PairResult:
    """Two faults at their doses, and the episodes in which both were delivered."""

    first: str
    second: str
    delivered: int
    judged: int
    failed: int


@dataclass(frozen=True)
class Pairs:
    """The state of the pairs after the rows so far."""

    state: str
    """``all delivered``, ``some delivered``, ``none delivered``; ``incomplete``: rows have not run."""
    rows: tuple[RowResult, ...] = ()
    pairs: tuple[PairResult, ...] = field(default=())

    @property
    def delivered(self) -> int:
        """Pairs that were delivered in at least one episode."""
        return sum(pair.delivered > 0 for pair in self.pairs)

    @property
    def share(self) -> float | None:
        """Delivered pairs among the planned ones; None without any."""
        return self.delivered / len(self.pairs) if self.pairs else None


def pairs_result(
    factors: Sequence[Factor],
    rows: Mapping[str, Row],
    episodes: Mapping[str, Sequence[EpisodeFacts]],
    failures: Sequence[str],
    each: int,
) -> Pairs:
    """Count what was delivered. ``rows`` and ``episodes`` by arm; ``each``: episodes planned for a row."""
    results = tuple(
        RowResult(
            name,
            tuple(factor.text(row[factor.id]) for factor in factors if factor.id in row),
            *_counts(episodes.get(name, ()), failures),
        )
        for name, row in rows.items()
    )
    pairs = tuple(_pairs(factors, rows, episodes, failures))
    state = "incomplete"
    if all(row.episodes >= each for row in results):
        count = sum(pair.delivered > 0 for pair in pairs)
        state = f"{'all' if count == len(pairs) else 'some' if count else 'none'} delivered"
    return Pairs(state, results, pairs)


def _pairs(
    factors: Sequence[Factor],
    rows: Mapping[str, Row],
    episodes: Mapping[str, Sequence[EpisodeFacts]],
    failures: Sequence[str],
) -> Iterator[PairResult]:
    for one, other in combinations(factors, 2):
        for first in _doses(one):
            for second in _doses(other):
                both = [
                    episode
                    for name, row in rows.items()
                    if row.get(one.id, _OFF) == first and row.get(other.id, _OFF) == second
                    for episode in episodes.get(name, ())
                    if {one.id, other.id} <= _delivered(episode)
                ]
                yield PairResult(one.text(first), other.text(second), *_counts(both, failures))


_OFF = "off"


def _delivered(episode: EpisodeFacts) -> set[str]:
    """The ids of the faults that were delivered."""
    faults = () if episode.judged.outcome == "invalid" else episode.judged.faults
    return {fault.entry for fault in faults if fault.delivered is True}


def _counts(episodes: Sequence[EpisodeFacts], failures: Sequence[str]) -> tuple[int, int, int]:
    """Episodes, those with a known outcome, and those that failed."""
    fates = (is_failure(episode.judged.outcome, failures) for episode in episodes)
    known = [failed for failed in fates if failed is not None]
    return len(episodes), len(known), sum(known)
