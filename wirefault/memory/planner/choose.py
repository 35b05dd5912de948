"""Choose the next cells to try, each with its reason. Pure.

A ladder starts at its smallest dose; the next dose follows once one was survived. A dose above one that was
not survived is proposed only if the caller wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from wirefault.experiments.search.chain import Reason, Risk
from wirefault.memory.planner.cells import Cell, paired
from wirefault.memory.planner.risk import RiskModel, Tally, merged

ENOUGH = 3
"""Episodes of a cell from which more are not worth asking."""
_MAX_ABSENT = 2
_MAX_PAIRS = 400
_ORDER: Mapping[Reason, int] = {
    "regression": 0,
    "unasked question": 1,
    "edge of a safe range": 2,
    "widest interval": 3,
    "untested pair": 4,
}


@dataclass(frozen=True)
class Terms:
    """The bounds that the caller sets."""

    enough: int = ENOUGH
    beyond_safe: bool = False
    max_risk: float = 1.0
    """Cells with a higher probability of harm are not proposed."""


DEFAULT_TERMS = Terms()


_Chosen = tuple[Cell, Reason, str]


@dataclass(frozen=True)
class Proposal:
    """A cell to try next, and why."""

    cell: Cell
    reason: Reason
    because: str
    risk: Risk


def proposals(
    cells: Sequence[Cell],
    past: Mapping[str, Tally],
    now: Mapping[str, Tally],
    terms: Terms = DEFAULT_TERMS,
) -> Iterator[Proposal]:
    """Yield all cells that are worth an episode, the best first.

    ``past``: tallies by cell of earlier recordings, ``now``: of this search.
    """
    total = merged(past, now)
    model = RiskModel.of(cells, total)
    by_id = {cell.id: cell for cell in cells}

    def in_order(chosen: Iterable[_Chosen]) -> Iterator[Proposal]:
        for cell, reason, because in sorted(chosen, key=lambda each: _place(each, total)):
            risk = model.risk(cell, [by_id[part] for part in cell.parts])
            if risk.value <= terms.max_risk:
                yield Proposal(cell, reason, because, risk)

    ladders = groupby(cells, lambda cell: cell.ladder)
    yield from in_order(
        each
        for _, ladder in ladders
        for each in _of_ladder(sorted(ladder, key=lambda cell: cell.rung), past, now, total, terms)
    )
    yield from in_order(_pairs(cells, total, terms))


def _place(chosen: _Chosen, total: Mapping[str, Tally]) -> tuple[float, ...]:
    """By reason, then the widest interval first; of equal ones, one that failed before one that did not."""
    cell, reason, _ = chosen
    tally = total.get(cell.id, Tally())
    return _ORDER[reason], -round(tally.width, 1), -min(tally.bad, 1)


def _of_ladder(
    ladder: Sequence[Cell],
    past: Mapping[str, Tally],
    now: Mapping[str, Tally],
    total: Mapping[str, Tally],
    terms: Terms,
) -> Iterator[_Chosen]:
    """The cell of the ladder that is to be tried next, if any."""
    tried = [cell for cell in ladder if total.get(cell.id, Tally()).delivered]
    for cell in tried:
        before = past.get(cell.id, Tally())
        if before.bad and not now.get(cell.id, Tally()).delivered:
            because = f"a weakness in {before.bad} of {_episodes(before.delivered)} before this search"
            yield cell, "regression", because
            return
    if not tried:
        first = ladder[0]
        if total.get(first.id, Tally()).absent < _MAX_ABSENT:
            dose = f", from the smallest dose, {first.place}" if first.place else ""
            yield first, "unasked question", f"no episode shows what happens then{dose}"
        return
    failed = next((cell for cell in tried if total[cell.id].bad), None)
    top = tried[-1]
    if top.rung + 1 < len(ladder) and (failed is None or terms.beyond_safe):
        following = ladder[top.rung + 1]
        if total.get(following.id, Tally()).absent < _MAX_ABSENT:
            n = total[top.id].delivered
            verb = "survived" if failed is None else "tried"
            because = f"{verb} {top.place} in {_episodes(n)}; next {following.place}"
            yield following, "edge of a safe range", because
            return
    cell = failed or top
    tally = total[cell.id]
    if tally.delivered < terms.enough and tally.absent < _MAX_ABSENT + terms.enough:
        because = f"a weakness in {tally.bad} of {_episodes(tally.delivered)}: the interval is still wide"
        yield cell, "widest interval", because


def _episodes(n: int) -> str:
    return f"{n} episode{'' if n == 1 else 's'}"


def _pairs(cells: Sequence[Cell], total: Mapping[str, Tally], terms: Terms) -> Iterator[_Chosen]:
    """Pairs of cells at different components that were survived alone, and not yet together."""
    fine: dict[str, Cell] = {}
    for cell in cells:
        tally = total.get(cell.id, Tally())
        if tally.delivered and not tally.bad:
            fine[cell.ladder] = cell  # the largest dose that was survived
    count = 0
    for first, second in combinations(fine.values(), 2):
        if first.component == second.component or not set(first.prompts) & set(second.prompts):
            continue
        pair = paired(first, second)
        tally = total.get(pair.id, Tally())
        if not tally.delivered and tally.absent < _MAX_ABSENT:
            yield pair, "untested pair", "each was survived alone, and both never came together"
        elif tally.bad and tally.delivered < terms.enough:
            because = f"a weakness in {tally.bad} of {_episodes(tally.delivered)}: the interval is still wide"
            yield pair, "widest interval", because
        count += 1
        if count >= _MAX_PAIRS:
            return
