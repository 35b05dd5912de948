"""The toxics that a seed draws for an attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from wirefault.core.identity import choose, draw
from wirefault.core.spans import Span
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.text_form import ToxicSpec

VERIFIED = "verified"
"""Rollback of a run whose toxics are gone, read back; any other text says what may be left."""


@dataclass(frozen=True)
class PlannedToxic:
    """One toxic on one link for one attempt."""

    link: str
    kind: str
    stream: str
    attributes: Mapping[str, int]
    entry: str = ""
    """Id of the fault set's entry; empty for ``TOXIC_PROB``."""
    configuration: int = 0
    """Number of the fault set; 0 for the run's settings."""
    seconds: float = 0.0
    """Duration from the arming; 0: to the attempt's end."""
    during: Span | None = None
    """The part of the attempt in which it is active, if it is more than a duration from the arming."""
    turn: tuple[int, int | None] | None = None
    """First and last turn of the user in which it is active; None: all turns."""

    @property
    def name(self) -> str:
        return f"wirefault_{self.kind}_{self.stream}"

    @property
    def span(self) -> Span:
        """The part of the attempt in which it is active."""
        return self.during or Span(duration=self.seconds)

    @property
    def lasts_attempt(self) -> bool:
        """Whether it is active from the arming to the attempt's end."""
        return self.span == Span() and self.turn is None

    def may_meet(self, other: PlannedToxic) -> bool:
        """Whether both may be active at once under one name; a link has at most one toxic of a name."""
        same = (self.link, self.name) == (other.link, other.name)
        return same and self.span.overlaps(other.span) and _in_one_turn(self.turn, other.turn)

    def as_at(self, seconds: float, call: int, turn: int) -> PlannedToxic | None:
        """The toxic at that moment, with the attributes of its dose; None if it is not active.

        ``seconds`` since the arming; ``call``: number on its link; ``turn``: number of the user's turn.
        """
        first, last = self.turn or (1, None)
        share = self.span.step(seconds if self.span.unit == "s" else call)
        if not share or turn < first or (last is not None and turn > last):
            return None
        attributes = None if share == 1 else toxic(self.kind).at_share(self.attributes, share)
        return self if attributes is None else replace(self, attributes=attributes)


def _in_one_turn(one: tuple[int, int | None] | None, other: tuple[int, int | None] | None) -> bool:
    """Whether two ranges of turns overlap; None is all turns."""
    (first, last), (other_first, other_last) = one or (1, None), other or (1, None)
    return (last is None or other_first <= last) and (other_last is None or first <= other_last)


class ToxicDraw(Protocol):
    """A toxic of a fault set, drawn with ``probability`` for each attempt and link.

    ``together``: one draw for all links. ``spans``: the parts of the attempt; empty: all of it.
    """

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> ToxicSpec: ...
    @property
    def links(self) -> Sequence[str]: ...
    @property
    def probability(self) -> float: ...
    @property
    def together(self) -> bool: ...
    @property
    def spans(self) -> Sequence[Span]: ...
    @property
    def turn(self) -> tuple[int, int | None] | None: ...
    def strikes(self, episode: str) -> bool: ...


def plan_toxics(
    seed: int,
    toxic_prob: float,
    toxics: Iterable[ToxicSpec],
    links: Iterable[str],
    episode: str,
    attempt: int,
    entries: Iterable[ToxicDraw] = (),
    configuration: int = 0,
    *,
    together: bool = False,
    seconds: float = 0.0,
) -> list[PlannedToxic]:
    """Draw the toxics of an attempt.

    By ``toxic_prob`` at most one of ``toxics`` on each of the ``links``, for ``seconds`` (0: to the attempt's
    end); links are independent, or with ``together`` all have the same toxic or none. Then ``entries`` of
    fault set ``configuration``, each drawn separately. A link never has two toxics of one name at once.
    """
    by_prob = _by_toxic_prob(seed, toxic_prob, toxics, links, episode, attempt, together)
    plan = [replace(toxic, seconds=seconds) for toxic in by_prob]
    for entry in entries:
        if entry.strikes(episode):
            drawn = list(_by_entry(seed, entry, configuration, episode, attempt))
            plan += [new for new in drawn if not any(new.may_meet(earlier) for earlier in plan)]
    return plan


def _by_toxic_prob(
    seed: int,
    toxic_prob: float,
    toxics: Iterable[ToxicSpec],
    links: Iterable[str],
    episode: str,
    attempt: int,
    together: bool,
) -> Iterator[PlannedToxic]:
    choices = [(spec, stream) for spec in toxics for stream in spec.streams]
    for link in links:
        key = (seed, episode, attempt, _drawn_for(link, together), "", 0, 0)
        if draw(*key, "toxic") < toxic_prob:
            spec, stream = choose(draw(*key, "toxic-kind"), choices)
            yield PlannedToxic(link, spec.kind, stream, dict(spec.attributes))


def _by_entry(
    seed: int, entry: ToxicDraw, configuration: int, episode: str, attempt: int
) -> Iterator[PlannedToxic]:
    spec = entry.spec
    for link in entry.links:
        key = (seed, episode, attempt, _drawn_for(link, entry.together), "", 0, 0)
        if draw(*key, f"{entry.id}:toxic") < entry.probability:
            stream = choose(draw(*key, f"{entry.id}:toxic-stream"), spec.streams)
            for span in entry.spans or (Span(),):
                attributes = dict(spec.attributes)
                drawn = PlannedToxic(link, spec.kind, stream, attributes, entry.id, configuration)
                by_seconds = span == Span(duration=span.duration)
                when = {"seconds": span.duration} if by_seconds else {"during": span}
                yield replace(drawn, **when, turn=entry.turn)


def _drawn_for(link: str, together: bool) -> str:
    """The name that keys a link's draws; one name for all makes their draws equal."""
    return "" if together else link
