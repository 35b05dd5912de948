"""A tool's result as a tree of values: finding what to change in it, and changing that alone. Pure."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from pydantic import Field

from windtunnel.dialects.http import Reply, dump_json
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try, kept

Path = tuple[str | int, ...]
# fields about the answer and not about the world: counters, places in a list, codes
_TECHNICAL = frozenset(
    """
    id position page per_page total count index offset limit status code engine backend units unit
    language source_language target_language deg lat lon type kind version
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Leaf:
    """One value in a result and where it stands."""

    path: Path
    value: Any

    @property
    def key(self) -> str:
        """The nearest field's name: of a list's items, the list's."""
        return next((part.lower() for part in reversed(self.path) if isinstance(part, str)), "")

    @property
    def telling(self) -> bool:
        """Whether it speaks of the world, as far as its field's name tells."""
        return self.key not in _TECHNICAL

    @property
    def dotted(self) -> str:
        return ".".join(str(part) for part in self.path)


Ranks = Sequence[Sequence[Leaf]]


@dataclass(frozen=True)
class Strike:
    """What a fault knows when it changes a result. ``rng``: a stream seeded by the schedule's keyed draw."""

    this: Try
    document: Any
    rng: random.Random

    def asked(self) -> str:
        """What the request says, folded: its query and its body."""
        request = self.this.request
        return f"{request.target} {request.body.decode('utf-8', 'replace')}".casefold().replace("+", " ")


class MeaningFault(Fault):
    """Changes what a result says, and keeps its form: the same fields, of the same types."""

    family = "meaning"
    where = "tool"

    severity: float = Field(0.5, ge=0, le=1, description="0: hard to notice, 1: absurd")
    field: str | None = Field(None, description="the field that is changed, as a.b; else drawn")

    def act(self, this: Try) -> Act:
        return Act(reply=partial(self.strike, this))

    def strike(self, this: Try, reply: Reply) -> Changed | Miss:
        """The result changed in one place or more, or a miss."""
        document = readable(reply)
        if document is None:
            return Miss("no_tool_result_to_change")
        strike = Strike(this, document, random.Random(this.chance("meaning")))
        ranks = [[leaf for leaf in rank if self.named(leaf)] for rank in self.candidates(strike)]
        wanted = self.how_many(sum(map(len, ranks)))
        changes: list[dict[str, Any]] = []
        for leaf in chain.from_iterable(drawn(rank, strike.rng) for rank in ranks):
            new = self.altered(leaf, strike)
            if new is not None and dump_json(new) != dump_json(leaf.value):
                document = replaced(document, leaf.path, new)
                changes.append({"field": leaf.dotted, "original": kept(leaf.value), "changed": kept(new)})
            if len(changes) >= wanted:
                break
        if not changes:
            return Miss("no_tool_result_to_change")
        evidence = {**changes[0], "severity": self.severity}
        if len(changes) > 1:
            evidence["further"] = changes[1:]
        return Changed(reply.with_json(document), evidence)

    def how_many(self, candidates: int) -> int:
        """In how many places the result is changed."""
        return 1

    def named(self, leaf: Leaf) -> bool:
        return self.field in (None, leaf.dotted)

    def candidates(self, strike: Strike) -> Ranks:
        """What could be changed, best first; what only repeats the question comes last."""
        raise NotImplementedError

    def altered(self, leaf: Leaf, strike: Strike) -> Any:
        """The new value of the same type; None if this one cannot be changed after all."""
        raise NotImplementedError


class TextFault(MeaningFault):
    """Changes one text of a result, the longer ones first."""

    shortest: ClassVar[int] = 1

    def candidates(self, strike: Strike) -> Ranks:
        texts = [leaf for leaf in leaves_of(strike.document) if isinstance(leaf.value, str)]
        long = [leaf for leaf in texts if len(leaf.value) >= self.shortest and not is_link(leaf.value)]
        telling, technical = split(long, lambda leaf: leaf.telling)
        answers, echoes = unlike_the_question(telling, strike)
        return [max_first(answers), max_first(echoes), max_first(technical)]


def readable(reply: Reply) -> Any:
    """The JSON of a good answer; None for an error, or for what is no object or list."""
    if reply.status >= 300 or reply.is_event_stream:
        return None
    try:
        document = reply.json()
    except ValueError:
        return None
    return document if isinstance(document, (dict, list)) else None


def leaves_of(document: Any, path: Path = ()) -> Iterator[Leaf]:
    """Every value that holds no other, in the document's order."""
    waiting: list[tuple[Path, Any]] = [(path, document)]
    while waiting:  # not by recursion: what comes over the wire may be nested very deep
        at, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*at, key), value[key]) for key in reversed(value)]
        elif isinstance(value, list):
            waiting += [((*at, number), value[number]) for number in reversed(range(len(value)))]
        else:
            yield Leaf(at, value)


def lists_of(document: Any) -> Iterator[Leaf]:
    """Every list in the document."""
    waiting: list[tuple[Path, Any]] = [((), document)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*at, key), value[key]) for key in reversed(value)]
        elif isinstance(value, list):
            yield Leaf(at, value)
            waiting += [((*at, number), value[number]) for number in reversed(range(len(value)))]


def replaced(document: Any, path: Path, new: Any) -> Any:
    """A copy of the document with that one value in the place of the old."""
    if not path:
        return new
    twin = copy.copy(document)
    spot = twin
    for part in path[:-1]:
        spot[part] = copy.copy(spot[part])
        spot = spot[part]
    spot[path[-1]] = new
    return twin


def drawn(leaves: Sequence[Leaf], rng: random.Random) -> list[Leaf]:
    """The same leaves from a drawn one among the first three on."""
    start = rng.randrange(min(3, len(leaves))) if leaves else 0
    return [*leaves[start:], *leaves[:start]]


def unlike_the_question(leaves: Sequence[Leaf], strike: Strike) -> tuple[list[Leaf], list[Leaf]]:
    """Those that say something new, and those that only repeat what was asked."""
    asked = strike.asked()
    return split(leaves, lambda leaf: str(leaf.value).casefold() not in asked)


def split(leaves: Iterable[Leaf], chosen: Callable[[Leaf], object]) -> tuple[list[Leaf], list[Leaf]]:
    """Those that are chosen, and the others."""
    yes: list[Leaf] = []
    no: list[Leaf] = []
    for leaf in leaves:
        (yes if chosen(leaf) else no).append(leaf)
    return yes, no


def max_first(leaves: Sequence[Leaf]) -> list[Leaf]:
    return sorted(leaves, key=lambda leaf: len(leaf.value), reverse=True)


def is_link(text: str) -> bool:
    return text.startswith(("http://", "https://"))
