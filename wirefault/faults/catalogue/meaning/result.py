"""A tool's result as a tree of values: selects the values to change and changes only those. Pure."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from pydantic import Field

from wirefault.dialects.http import Reply, dump_json
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, evidence_of

_Path = tuple[str | int, ...]
# Fields that describe the reply and not the world: counters, positions, codes.
_TECHNICAL = frozenset(
    """
    id position page per_page total count index offset limit status code engine backend units unit
    language source_language target_language deg lat lon type kind version
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Leaf:
    """One value in a result, with the keys and indexes of its path."""

    path: _Path
    value: Any

    @property
    def key(self) -> str:
        """The name of the nearest field, in lower case; list items have their list's."""
        return next((part.lower() for part in reversed(self.path) if isinstance(part, str)), "")

    @property
    def telling(self) -> bool:
        """Whether its field's name describes the world and not the reply."""
        return self.key not in _TECHNICAL

    @property
    def dotted(self) -> str:
        return ".".join(str(part) for part in self.path)


Ranks = Sequence[Sequence[Leaf]]


@dataclass(frozen=True)
class ResultTree:
    """The result of a try as JSON. ``rng`` is seeded by the schedule's keyed draw."""

    tried: Try
    document: Any
    rng: random.Random

    def question(self) -> str:
        """The request's target and body as case-folded text."""
        request = self.tried.request
        return f"{request.target} {request.body.decode('utf-8', 'replace')}".casefold().replace("+", " ")


class MeaningFault(Fault):
    """Changes a result's content and keeps its form: the same fields of the same types."""

    family = "meaning"
    where = "tool"
    mcp_view = "result"

    severity: float = Field(0.5, ge=0, le=1, description="0: hard to notice, 1: absurd")
    field: str | None = Field(None, description="the field to change, as a.b; default: drawn")

    def act(self, tried: Try) -> Act:
        return Act(reply=partial(self._changed, tried))

    def _changed(self, tried: Try, reply: Reply) -> Changed | Miss:
        document = _document_of(reply)
        if document is None:
            return Miss("no_tool_result_to_change")
        result = ResultTree(tried, document, random.Random(tried.chance("meaning")))
        all_ranks = self.candidates(result)
        ranks = [[leaf for leaf in rank if self.field in (None, leaf.dotted)] for rank in all_ranks]
        needed = self.how_many(sum(map(len, ranks)))
        changes: list[dict[str, Any]] = []
        for leaf in chain.from_iterable(_rotated(rank, result.rng) for rank in ranks):
            new = self.altered(leaf, result)
            if new is not None and dump_json(new) != dump_json(leaf.value):
                document = _with_value_at(document, leaf.path, new)
                values = {"original": evidence_of(leaf.value), "changed": evidence_of(new)}
                changes.append({"field": leaf.dotted, **values})
            if len(changes) >= needed:
                break
        if not changes:
            return Miss("no_tool_result_to_change")
        evidence = {**changes[0], "severity": self.severity}
        if len(changes) > 1:
            evidence["further"] = changes[1:]
        return Changed(reply.with_json(document), evidence)

    def how_many(self, candidates: int) -> int:
        """The number of values to change."""
        return 1

    def candidates(self, result: ResultTree) -> Ranks:
        """The values that can be changed, best first; values that repeat the question come last."""
        raise NotImplementedError

    def altered(self, leaf: Leaf, result: ResultTree) -> Any:
        """A new value of the same type; None if this leaf cannot be changed."""
        raise NotImplementedError


class TextFault(MeaningFault):
    """Changes one text of a result, long ones first."""

    shortest: ClassVar[int] = 1

    def candidates(self, result: ResultTree) -> Ranks:
        texts = [leaf for leaf in leaves_of(result.document) if isinstance(leaf.value, str)]
        long = [leaf for leaf in texts if len(leaf.value) >= self.shortest and not is_link(leaf.value)]
        telling, technical = divided(long, lambda leaf: leaf.telling)
        answers, echoes = unlike_the_question(telling, result)
        return [longest_first(answers), longest_first(echoes), longest_first(technical)]


def _document_of(reply: Reply) -> Any:
    """The object or list of a successful reply; None for any other."""
    if reply.status >= 300 or reply.is_event_stream:
        return None
    try:
        document = reply.json()
    except ValueError:
        return None
    return document if isinstance(document, (dict, list)) else None


def leaves_of(document: Any) -> Iterator[Leaf]:
    """Every scalar value, in the document's order."""
    return (leaf for leaf in _values_of(document) if not isinstance(leaf.value, (dict, list)))


def lists_of(document: Any) -> Iterator[Leaf]:
    """Every list in the document."""
    return (leaf for leaf in _values_of(document) if isinstance(leaf.value, list))


def _values_of(document: Any) -> Iterator[Leaf]:
    waiting: list[tuple[_Path, Any]] = [((), document)]
    while waiting:  # without recursion: replies may be nested very deeply
        at, value = waiting.pop()
        yield Leaf(at, value)
        if isinstance(value, dict):
            waiting += [((*at, key), value[key]) for key in reversed(value)]
        elif isinstance(value, list):
            waiting += [((*at, number), value[number]) for number in reversed(range(len(value)))]


def _with_value_at(document: Any, path: _Path, new: Any) -> Any:
    """A copy of the document with another value at that path."""
    if not path:
        return new
    twin = copy.copy(document)
    spot = twin
    for part in path[:-1]:
        spot[part] = copy.copy(spot[part])
        spot = spot[part]
    spot[path[-1]] = new
    return twin


def _rotated(leaves: Sequence[Leaf], rng: random.Random) -> list[Leaf]:
    """The leaves rotated to start at one of the first three, drawn by chance."""
    start = rng.randrange(min(3, len(leaves))) if leaves else 0
    return [*leaves[start:], *leaves[:start]]


def unlike_the_question(leaves: Sequence[Leaf], result: ResultTree) -> tuple[list[Leaf], list[Leaf]]:
    """Split the leaves into new information and values that repeat the question."""
    question = result.question()
    return divided(leaves, lambda leaf: str(leaf.value).casefold() not in question)


def divided(leaves: Iterable[Leaf], chosen: Callable[[Leaf], object]) -> tuple[list[Leaf], list[Leaf]]:
    """Split the leaves into chosen ones and others."""
    yes: list[Leaf] = []
    no: list[Leaf] = []
    for leaf in leaves:
        (yes if chosen(leaf) else no).append(leaf)
    return yes, no


def longest_first(leaves: Sequence[Leaf]) -> list[Leaf]:
    return sorted(leaves, key=lambda leaf: len(leaf.value), reverse=True)


def is_link(text: str) -> bool:
    return text.startswith(("http://", "https://"))
