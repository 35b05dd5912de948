"""The effect of each fault on the success rate: an arm against its shadow twins in the control. Pure.

An episode counts for a fault if the fault was planned for it: its draw hit in the control, where it was only
recorded, so no consequence of the fault decides which episodes are compared (intention to treat).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wirefault.experiments.facts import EpisodeFacts, planned_faults
from wirefault.experiments.figures import outcomes_in
from wirefault.experiments.saved import SavedExperiment
from wirefault.stats.rates import Difference, paired_difference

_Episodes = Mapping[str, set[str]]
_Pair = tuple[bool | None, bool | None]


@dataclass(frozen=True)
class FaultEffect:
    """``planned`` counts the control's episodes that the ``fault`` would have hit, ``drawn`` those of them in
    which it was drawn in the arm, ``alone`` those for which no other fault was planned.

    ``success`` is the rise of the success rate with the fault, over episodes with an outcome in both arms;
    None without any. ``control`` and ``struck`` count the successes, ``control_judged`` and ``struck_judged``
    the episodes with an outcome, ``open`` those without one in either arm.
    """

    arm: str
    fault: str
    planned: int
    drawn: int
    alone: int
    open: int
    control: int
    control_judged: int
    struck: int
    struck_judged: int
    success: Difference | None


def effects_in(saved: SavedExperiment) -> list[FaultEffect]:
    """The effects in an experiment whose control recorded shadows; empty for any other.

    An arm with perturbed prompts is compared with the control that has the same prompts.
    """
    effects: list[FaultEffect] = []
    for arm in saved.plan.arms:
        control = saved.calm_arm(arm)
        if not arm.is_calm and control.is_calm:
            episodes = saved.facts_of(control).episodes
            effects += fault_effects(episodes, [(arm.name, saved.facts_of(arm).episodes)])
    return effects


def fault_effects(
    control: Sequence[EpisodeFacts], arms: Iterable[tuple[str, Sequence[EpisodeFacts]]]
) -> Iterator[FaultEffect]:
    """The effects by the episodes of the control and of each arm."""
    without = outcomes_in(control)
    for name, episodes in arms:
        planned, drawn = planned_faults(control, name), _drawn(episodes)
        struck = outcomes_in(episodes)
        for fault, keys in sorted(planned.items()):
            others = set[str]().union(*(also for other, also in planned.items() if other != fault))
            pairs = [(without.get(key), struck.get(key)) for key in keys]
            yield _effect(name, fault, keys, drawn.get(fault, set()), others, pairs)


def _effect(
    arm: str, fault: str, planned: set[str], drawn: set[str], others: set[str], pairs: Sequence[_Pair]
) -> FaultEffect:
    """``others``: episodes for which other faults were planned. ``pairs``: for each planned episode, success
    in the control and in the arm.
    """
    counts = [pairs.count(each) for each in ((True, True), (True, False), (False, True), (False, False))]
    control, struck = ([pair[side] for pair in pairs if pair[side] is not None] for side in (0, 1))
    return FaultEffect(
        arm=arm,
        fault=fault,
        planned=len(planned),
        drawn=len(planned & drawn),
        alone=len(planned - others),
        open=len(planned) - sum(counts),
        control=control.count(True),
        control_judged=len(control),
        struck=struck.count(True),
        struck_judged=len(struck),
        success=paired_difference(*counts),
    )


def _drawn(episodes: Iterable[EpisodeFacts]) -> _Episodes:
    """For each fault the episodes in which it was drawn, with or without effect."""
    drawn: defaultdict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        for fault in episode.drawn:
            drawn[fault].add(episode.episode)
    return drawn
