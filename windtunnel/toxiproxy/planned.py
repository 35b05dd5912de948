"""The toxics that a seed draws for an attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windtunnel.core.draws import choose, draw
from windtunnel.toxiproxy.toxics.text_form import ToxicSpec


@dataclass(frozen=True)
class PlannedToxic:
    """One toxic on one link for one attempt. ``attributes`` in the units of its kind.

    ``entry``: the id of the fault set's entry that it was drawn for, empty for ``TOXIC_PROB``.
    ``configuration``: the number of that set, 0 for the run's own settings.
    """

    link: str
    kind: str
    stream: str
    attributes: Mapping[str, int]
    entry: str = ""
    configuration: int = 0

    @property
    def name(self) -> str:
        return f"windtunnel_{self.kind}_{self.stream}"


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


def plan_toxics(
    seed: int,
    toxic_prob: float,
    toxics: Iterable[ToxicSpec],
    links: Iterable[str],
    episode: str,
    attempt: int,
    entries: Iterable[ToxicDraw] = (),
    configuration: int = 0,
) -> list[PlannedToxic]:
    """The toxics of an attempt.

    By ``toxic_prob`` at most one of ``toxics`` on each of the ``links``, links independent; then those of
    the ``entries`` of the fault set of that number, each drawn by itself. A link has no toxic of one name
    twice.
    """
    plan = list(_by_toxic_prob(seed, toxic_prob, toxics, links, episode, attempt))
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
) -> Iterator[PlannedToxic]:
    choices = [(spec, stream) for spec in toxics for stream in spec.streams]
    for link in links:
        key = (seed, episode, attempt, link, "", 0, 0)
        if draw(*key, "toxic") < toxic_prob:
            spec, stream = choose(draw(*key, "toxic-kind"), choices)
            yield PlannedToxic(link, spec.kind, stream, dict(spec.attributes))


def _by_entry(
    seed: int, entry: ToxicDraw, configuration: int, episode: str, attempt: int
) -> Iterator[PlannedToxic]:
    spec = entry.spec
    for link in entry.links:
        key = (seed, episode, attempt, link, "", 0, 0)
        if draw(*key, f"{entry.id}:toxic") < entry.probability:
            stream = choose(draw(*key, f"{entry.id}:toxic-stream"), spec.streams)
            yield PlannedToxic(link, spec.kind, stream, dict(spec.attributes), entry.id, configuration)
