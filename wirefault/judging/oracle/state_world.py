"""The world axis of a probed world: its state after the episode, or the changes of the state. Pure.

``state`` is compared by the expected fields. Its lists are compared as multisets: the expected number of
elements, in any order. ``added`` and ``removed`` are compared with the difference between the states before
and after; if the state is an object, they name its lists: ``{"orders": [...]}``. A changed row counts as one
removed and one added. Every other change in a list is extra.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wirefault.history.events import WorldProbed
from wirefault.history.judged_events import World
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.oracle.matching import match_json, paired
from wirefault.judging.oracle.world import WorldFlag, WorldJudgement, combined

_Lists = Mapping[str, Sequence[Any]]


class _NoLists(ValueError):
    """The state is neither a list nor an object with lists, so nothing can have been added to it."""


def judge_state(oracle: Oracle, probes: Sequence[WorldProbed], settled: bool) -> WorldJudgement:
    """Judge the probed world. It is unknown if the oracle needs a probe that is missing."""
    before = next((probe for probe in probes if probe.when == "before" and probe.error is None), None)
    after = next((probe for probe in probes if probe.when == "after" and probe.error is None), None)
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    if after is None or (oracle.expects_changes and before is None):
        return WorldJudgement("unknown", "missing probe of the world's state")
    judgements: list[WorldJudgement] = [WorldJudgement("as_asked")]
    if oracle.state is not None:
        judgements += _compared(oracle.state, after.state, "the state")
    if oracle.expects_changes and before is not None:
        try:
            judgements += _changes(oracle, _lists(before.state), _lists(after.state))
        except _NoLists as error:
            return WorldJudgement("unknown", str(error))
    certain = [judgement for judgement in judgements if judgement.axis != "unknown"]
    # one certain difference is enough, even if other parts cannot be read
    return combined(certain if any(each.axis != "as_asked" for each in certain) else judgements)


def _compared(expected: Any, actual: Any, place: str) -> Iterator[WorldJudgement]:
    """Each difference, with its place."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name, value in expected.items():
            if name in actual:
                yield from _compared(value, actual[name], f"{place}.{name}".removeprefix("the state."))
            else:
                yield WorldJudgement("lost", f"{place} has no {name}")
        return
    if isinstance(expected, list) and isinstance(actual, list):
        yield from _multiset(expected, actual, place)
        return
    match = match_json(expected, actual)
    if match == "unreadable":
        yield WorldJudgement("unknown", f"{place} cannot be read: {_short(actual)}")
    elif match == "wrong":
        yield WorldJudgement("wrong", f"{place} is {_short(actual)}, asked for {_short(expected)}")


def _multiset(expected: Sequence[Any], actual: Sequence[Any], place: str) -> Iterator[WorldJudgement]:
    pairing = paired(expected, actual, match_json, _alike)
    replaced = [element for element, _ in pairing.wrong]
    if pairing.unread:
        unreadable = [*(element for _, element in pairing.unreadable), *pairing.extra]
        yield WorldJudgement("unknown", f"{place}: {_short(unreadable[0])} cannot be read")
        return
    words: tuple[tuple[World, Sequence[Any], str], ...] = (
        ("duplicated", pairing.again, "more often than asked for"),
        ("wrong", [element for _, element in pairing.wrong], "not as asked"),
        ("lost", [element for element in pairing.missing if element not in replaced], "missing"),
        ("extra", pairing.extra, "not asked for"),
    )
    for axis, elements, what in words:
        if elements:
            flags: frozenset[WorldFlag] = frozenset({"unasked"}) if axis == "extra" else frozenset()
            yield WorldJudgement(axis, f"{place}: {_short(elements[0])} {what}", flags)


def _alike(expected: Any, actual: Any) -> bool:
    """Whether one can replace the other: two objects if any field matches, or two plain values."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        shared = expected.keys() & actual.keys()
        return any(match_json(expected[name], actual[name]) == "right" for name in shared)
    return not isinstance(expected, Mapping) and not isinstance(actual, Mapping)


def _changes(oracle: Oracle, before: _Lists, after: _Lists) -> Iterator[WorldJudgement]:
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, ()), after.get(name, ())
        place = f"{name}: " if name else ""
        yield from _multiset(_named(oracle.added, name), _without(new, old), f"{place}added")
        for judgement in _multiset(_named(oracle.removed, name), _without(old, new), f"{place}removed"):
            # an element cannot be removed twice
            axis: World = "extra" if judgement.axis == "duplicated" else judgement.axis
            yield WorldJudgement(axis, judgement.why, judgement.flags)
    for name in (name for rows in (oracle.added, oracle.removed) for name in _lists(rows or [])):
        if name not in before and name not in after:
            raise _NoLists(f"the state has no list {name!r}" if name else "the state is not a list")


def _named(rows: Any, name: str) -> Sequence[Any]:
    return _lists(rows or []).get(name, ())


def _lists(state: Any) -> _Lists:
    """The lists of a state by name; the name is empty if the state itself is a list."""
    if isinstance(state, list):
        return {"": state}
    fields = state.items() if isinstance(state, dict) else ()
    lists = {name: rows for name, rows in fields if isinstance(rows, list)}
    if not lists:
        raise _NoLists("the state is neither a list nor an object with lists")
    return lists


def _without(rows: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The multiset difference."""
    left, remaining = [], Counter(map(_canonical, others))
    for row in rows:
        if remaining[_canonical(row)]:
            remaining[_canonical(row)] -= 1
        else:
            left.append(row)
    return left


def _canonical(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
