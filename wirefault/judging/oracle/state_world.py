"""The world axis where a probe reads the world: its state after the episode, or what that changed. Pure.

``state`` is matched by the fields given, its lists as multisets: as many elements as are asked for, in any
order. ``added`` and ``removed`` are held against the difference between the state before and after; of a
state that is an object they name its lists: ``{"orders": [...]}``. A row that has changed is one removed and
one added. Whatever has changed in a list and is not named is one too many.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wirefault.history.events import WorldProbed
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.oracle.json_match import json_matches
from wirefault.judging.oracle.pairing import paired
from wirefault.judging.oracle.world import World, WorldFlag, WorldJudgement, combined

_Lists = Mapping[str, Sequence[Any]]


class _NoLists(ValueError):
    """A state in which nothing can have been added: neither a list nor an object with lists."""


def judge_state(oracle: Oracle, probes: Sequence[WorldProbed], settled: bool) -> WorldJudgement:
    """``probes``: those of the episode. The world is unknown if one is missing that the oracle needs."""
    before = next((probe for probe in probes if probe.when == "before" and probe.error is None), None)
    after = next((probe for probe in probes if probe.when == "after" and probe.error is None), None)
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    if after is None or (oracle.asks_of_changes and before is None):
        return WorldJudgement("unknown", "no probe has read the world's state")
    found: list[WorldJudgement] = [WorldJudgement("as_asked")]
    if oracle.state is not None:
        found += _compared(oracle.state, after.state, "the state")
    if oracle.asks_of_changes and before is not None:
        try:
            found += _changes(oracle, _lists(before.state), _lists(after.state))
        except _NoLists as error:
            return WorldJudgement("unknown", str(error))
    return combined(found)


def _compared(asked: Any, there: Any, place: str) -> Iterator[WorldJudgement]:
    """What is not as asked, each with where it is."""
    if isinstance(asked, Mapping) and isinstance(there, Mapping):
        for name, value in asked.items():
            if name in there:
                yield from _compared(value, there[name], f"{place}.{name}".removeprefix("the state."))
            else:
                yield WorldJudgement("lost", f"{place} has no {name}")
    elif isinstance(asked, list) and isinstance(there, list):
        yield from _multiset(asked, there, place)
    elif not json_matches(asked, there):
        yield WorldJudgement("wrong", f"{place} is {_short(there)}, not as asked")


def _multiset(asked: Sequence[Any], there: Sequence[Any], place: str) -> Iterator[WorldJudgement]:
    pairing = paired(asked, there, json_matches, _alike)
    replaced = [wanted for wanted, _ in pairing.wrong]
    words: tuple[tuple[World, Sequence[Any], str], ...] = (
        ("duplicated", pairing.again, "there more often than asked"),
        ("wrong", [instead for _, instead in pairing.wrong], "not as asked"),
        ("lost", [wanted for wanted in pairing.missing if wanted not in replaced], "missing"),
        ("extra", pairing.extra, "not asked for"),
    )
    for axis, elements, what in words:
        if elements:
            flags: frozenset[WorldFlag] = frozenset({"unasked"}) if axis == "extra" else frozenset()
            yield WorldJudgement(axis, f"{place}: {_short(elements[0])} {what}", flags)


def _alike(asked: Any, there: Any) -> bool:
    """Whether one may stand in the place of the other: of objects, if any of the fields is as asked."""
    if isinstance(asked, Mapping) and isinstance(there, Mapping):
        return any(name in there and json_matches(asked[name], there[name]) for name in asked)
    return not isinstance(asked, Mapping) and not isinstance(there, Mapping)


def _changes(oracle: Oracle, before: _Lists, after: _Lists) -> Iterator[WorldJudgement]:
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, ()), after.get(name, ())
        place = f"{name}: " if name else ""
        yield from _multiset(_named(oracle.added, name), _without(new, old), f"{place}added")
        for judgement in _multiset(_named(oracle.removed, name), _without(old, new), f"{place}removed"):
            # what is gone cannot have been done twice
            axis: World = "extra" if judgement.axis == "duplicated" else judgement.axis
            yield WorldJudgement(axis, judgement.why, judgement.flags)
    for name in (name for given in (oracle.added, oracle.removed) for name in _lists(given or [])):
        if name not in before and name not in after:
            raise _NoLists(f"the state has no list {name!r}" if name else "the state is no list")


def _named(given: Any, name: str) -> Sequence[Any]:
    return _lists(given or []).get(name, ())


def _lists(state: Any) -> _Lists:
    """The lists of a state by their names; one that is a list itself has the empty name."""
    if isinstance(state, list):
        return {"": state}
    fields = state.items() if isinstance(state, dict) else ()
    lists = {name: rows for name, rows in fields if isinstance(rows, list)}
    if not lists:
        raise _NoLists("the state is neither a list nor an object with lists")
    return lists


def _without(rows: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The rows that are not among the others, each as often as it is there more often."""
    left, taken = [], Counter(map(_canonical, others))
    for row in rows:
        if taken[_canonical(row)]:
            taken[_canonical(row)] -= 1
        else:
            left.append(row)
    return left


def _canonical(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
