"""Count the executions of a write by the rows that it added to a probed world. Pure.

A write may add a row with the values of its body to a list of the world's state. The number of such rows is
the number of executions. A state without such a row shows nothing about the write. Neither does a row that
may be the sum of several writes: a row with a number, such as a quantity, that the body does not have.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.history.events import WorldProbed

_Value = tuple[str, str]  # a plain name and the value as text
_SUM = re.compile(
    r"(?:quantity|qty|count|amount|times|units?|pieces|number|total\w*|sum|balance|stock|version|revision"
    r"|retries|attempts|\w+(?:count|quantity|total))"
)
_MAX_VALUES = 200


@dataclass(frozen=True)
class AddedRows:
    """The rows that were added to the world during the episode."""

    rows: Sequence[Sequence[_Value]]

    @classmethod
    def of(cls, probes: Sequence[WorldProbed]) -> AddedRows | None:
        """None unless the probes before and after the episode succeeded."""
        states = {probe.when: probe.state for probe in probes if probe.error is None}
        if len(states) < 2 or any(probe.error is not None for probe in probes):
            return None
        added = Counter(_rows_in(states["after"]))
        added.subtract(Counter(_rows_in(states["before"])))
        rows = [row for row, count in added.items() for _ in range(max(count, 0))]
        return cls([list(_values(json.loads(row))) for row in rows])

    def matching(self, body: Any) -> frozenset[int]:
        """The indexes of the rows that have the body's values."""
        wanted = list(_values(body))
        if not wanted or len(wanted) > _MAX_VALUES:
            return frozenset()
        return frozenset(place for place, row in enumerate(self.rows) if _matches(row, wanted))

    def may_be_sum(self, place: int, body: Any) -> bool:
        """Whether the row may sum several writes: it has a quantity above one that is not in the body."""
        values = {text for _, text in _values(body)}
        return any(
            _SUM.fullmatch(name) and text not in values and text not in ("0", "1", "true", "false", "null")
            for name, text in self.rows[place]
        )


def _rows_in(state: Any) -> Iterator[str]:
    """The elements of all lists of the state, as canonical JSON."""
    if isinstance(state, Mapping):
        for member in state.values():
            yield from _rows_in(member)
    elif isinstance(state, list):
        yield from (json.dumps(row, sort_keys=True) for row in state)


def _values(value: Any, name: str = "") -> Iterator[_Value]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _values(member, re.sub(r"[^a-z0-9]", "", str(key).lower()))
    elif isinstance(value, list):
        for member in value:
            yield from _values(member, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield name, _text(value)


def _text(value: str | float) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip().casefold()


def _matches(row: Sequence[_Value], wanted: Sequence[_Value]) -> bool:
    """Whether no field of the row contradicts the body, and at least one field has a value of the body."""
    by_name: dict[str, set[str]] = {}
    for name, text in row:
        by_name.setdefault(name, set()).add(text)
    texts = {text for _, text in row}
    if any(name in by_name and name and text not in by_name[name] for name, text in wanted):
        return False
    return any(text in texts and (name in by_name or not text.isdecimal()) for name, text in wanted)
