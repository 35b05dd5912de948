"""The toxics that a seed draws for an attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from windtunnel.core.draws import choose, draw
from windtunnel.toxiproxy.toxics.text_form import ToxicSpec


@dataclass(frozen=True)
class PlannedToxic:
    """One toxic on one link for one attempt. ``attributes`` in the units of its kind.

    ``entry``: the id of the fault set's entry that it was drawn for, empty for ``TOXIC_PROB``.
    ``configuration``: the number of that set, 0 for the run's own settings. ``seconds``: how long it lasts
    from the moment at which the attempt is armed; 0: to the attempt's end.
    """

    link: str
    kind: str
    stream: str
    attributes: Mapping[str, int]
    entry: str = ""
    configuration: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"windtunnel_{self.kind}_{self.stream}"


class ToxicDose(Protocol):
    """``together``: one draw for all links, instead of one for each.

    ``duration``: seconds from the moment at which the attempt is armed; 0: to the attempt's end.
    """

    @property
    def together(self) -> bool: ...
    @property
    def duration(self) -> float: ...


class ToxicDraw(Protocol):
    """A toxic of a fault set: on each of its links, an attempt has it with that chance."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> ToxicSpec: ...
    @property
    def links(self) -> Sequence[str]: ...
    @property
    def probability(self) -> float: ...
    @property
    def dose(self) -> ToxicDose: ...


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
    """The toxics of an attempt.

    By ``toxic_prob`` at most one of ``toxics`` on each of the ``links``, for ``seconds`` (0: to the attempt's
    end); the links are independent, or ``together`` all have the same one or none. Then those of the
    ``entries`` of the fault set of that number, each drawn by itself. A link has no toxic of one name twice.
    """
    by_prob = _by_toxic_prob(seed, toxic_prob, toxics, links, episode, attempt, together)
    plan = [replace(toxic, seconds=seconds) for toxic in by_prob]
    for entry in entries:
        taken = {(toxic.link, toxic.name) for toxic in plan}
        drawn = _by_entry(seed, entry, configuration, episode, attempt)
        plan += [toxic for toxic in drawn if (toxic.link, toxic.name) not in taken]
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
        key = (seed, episode, attempt, _drawn_for(link, entry.dose.together), "", 0, 0)
        if draw(*key, f"{entry.id}:toxic") < entry.probability:
            stream = choose(draw(*key, f"{entry.id}:toxic-stream"), spec.streams)
            attributes = dict(spec.attributes)
            yield PlannedToxic(
                link, spec.kind, stream, attributes, entry.id, configuration, entry.dose.duration
            )


def _drawn_for(link: str, together: bool) -> str:
    """The name that keys a link's draws: one that all share makes them all alike."""
    return "" if together else link
