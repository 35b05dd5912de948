"""What each fault did to the success rate: the struck arm against its shadow twins in the control. Pure.

An episode counts for a fault if the fault was planned for it: its draws hit in the control, where they were
only recorded, so that nothing that the fault itself led to has a say in which episodes are compared
(intention to treat). Most of these were struck in the arm too; which were is said, and changes no figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.saved import SavedExperiment
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.stats.rates import Difference, paired_difference

_Episodes = Mapping[str, set[str]]
_Pair = tuple[bool | None, bool | None]
_Successes = Mapping[str, bool | None]


@dataclass(frozen=True)
class FaultEffect:
    """``planned``: in how many episodes of the control the ``fault`` would have struck. ``drawn``: in how
    many of them it was drawn in the arm; ``alone``: in how many no other fault was planned.

    ``success``: of those that have an outcome in both arms, by how much the struck arm's rate is higher; None
    without any. ``control`` and ``struck`` count their successes; ``open`` those without an outcome.
    """

    arm: str
    fault: str
    planned: int
    drawn: int
    alone: int
    open: int
    control: int
    struck: int
    success: Difference | None


def effects_in(saved: SavedExperiment) -> list[FaultEffect]:
    """Those of an experiment whose control was flown with shadows; empty of any other."""
    control = next((arm for arm in saved.plan.arms if arm.is_control), None)
    episodes = saved.facts_of(control).episodes if control else []
    if not any(episode.shadows for episode in episodes):
        return []
    arms = ((arm.name, saved.facts_of(arm).episodes) for arm in saved.plan.arms if not arm.is_control)
    return list(fault_effects(episodes, arms))


def fault_effects(
    control: Sequence[EpisodeFacts], arms: Iterable[tuple[str, Sequence[EpisodeFacts]]]
) -> Iterator[FaultEffect]:
    """By the episodes of the control and of each arm; an arm that has none was not flown."""
    without = _successes(control)
    for name, episodes in arms:
        planned, drawn = _planned(control, name), _drawn(episodes)
        struck = _successes(episodes)
        for fault, keys in sorted(planned.items()):
            others = set[str]().union(*(also for other, also in planned.items() if other != fault))
            pairs = [(without.get(key), struck.get(key)) for key in keys]
            yield _effect(name, fault, keys, drawn.get(fault, set()), others, pairs)


def _effect(
    arm: str, fault: str, planned: set[str], drawn: set[str], others: set[str], pairs: Sequence[_Pair]
) -> FaultEffect:
    """``others``: the episodes for which other faults were planned. ``pairs``: of each planned one, whether
    it was a success in the control, and in the arm."""
    counts = [pairs.count(each) for each in ((True, True), (True, False), (False, True), (False, False))]
    return FaultEffect(
        arm=arm,
        fault=fault,
        planned=len(planned),
        drawn=len(planned & drawn),
        alone=len(planned - others),
        open=len(planned) - sum(counts),
        control=counts[0] + counts[1],
        struck=counts[0] + counts[2],
        success=paired_difference(*counts),
    )


def _planned(control: Iterable[EpisodeFacts], arm: str) -> _Episodes:
    """By fault the episodes in which the control's shadows of that arm would have struck."""
    planned: defaultdict[str, set[str]] = defaultdict(set)
    for episode in control:
        for of_arm, fault in episode.shadows:
            if of_arm == arm:
                planned[fault].add(episode.episode)
    return planned


def _drawn(episodes: Iterable[EpisodeFacts]) -> _Episodes:
    """By fault the episodes in which it was drawn, whatever came of it."""
    drawn: defaultdict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        for fault in episode.drawn:
            drawn[fault].add(episode.episode)
    return drawn


def _successes(episodes: Iterable[EpisodeFacts]) -> _Successes:
    """By episode whether it was a success; None for one without an outcome."""
    return {
        episode.episode: episode.outcome == "success" if OUTCOMES[episode.outcome].in_rate else None
        for episode in episodes
    }
