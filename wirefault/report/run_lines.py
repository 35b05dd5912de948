"""Sentences about a flight as a whole: how far its faults reach, what would end it, what shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wirefault.experiments.arms import ExperimentPlan
from wirefault.experiments.safety import spared_episodes
from wirefault.experiments.shelf import RunCost
from wirefault.experiments.verdict import ArmResult
from wirefault.report.tables import one_line

_MOST_REASONS = 5


def radius_lines(plan: ExperimentPlan) -> Iterator[str]:
    """How far the faults of each arm may reach."""
    keys = [prompt.key for prompt in plan.prompts]
    for arm in plan.arms:
        if arm.capped:
            yield f"{arm.name}: at this dose strikes always, and not more: {', '.join(arm.capped)}"
        if spared := spared_episodes(arm.settings, keys):
            yield f"{arm.name}: {spared} of {len(keys)} episodes are out of the blast radius, without faults"
        if arm.settings.fault_calls:
            yield f"{arm.name}: faults strike at most {arm.settings.fault_calls} calls of an episode"


def end_lines(plan: ExperimentPlan) -> Iterator[str]:
    """What would end the flight before all is flown."""
    safety, limits = plan.experiment.safety, plan.experiment.limits
    if safety.abort:
        yield f"aborted as soon as: {'; '.join(safety.abort)}"
    bounds = [] if limits.time is None else [f"{limits.time:g} s"]
    bounds += [] if limits.cost is None else [f"{limits.cost:g} USD"]
    if bounds:
        yield f"no episode begins after {' or '.join(bounds)}"


def time_line(plan: ExperimentPlan, last: RunCost | None) -> str:
    """How long it will take, as the ``last`` flight of it did; no guess without one."""
    if last is None:
        return "it takes: unknown, since it has not been flown here"
    each = last.seconds / last.episodes
    source = f"{last.episodes} episodes took {last.seconds:.1f} s with --workers {last.workers}"
    return f"it takes: about {plan.episodes * each:.1f} s, as in {last.experiment_id}, where {source}"


def invalid_lines(arms: Sequence[ArmResult]) -> Iterator[str]:
    """Why episodes show nothing, a few of each arm; the figures are bounded as if all had failed or not."""
    for arm in arms:
        for what, reasons in (
            ("invalid", [f"{episode}: {why}" for episode, why in arm.invalid.items()]),
            ("invalid before, and flown again", arm.flown_again),
        ):
            for reason in reasons[:_MOST_REASONS]:
                yield f"{arm.name}, {what}: {one_line(reason)}"
            if len(reasons) > _MOST_REASONS:
                yield f"{arm.name}, {what}: {len(reasons) - _MOST_REASONS} more; --json has them all"


def reproducible_lines(obstacles: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Whether it would come out the same again, or in which arms that hangs on order or on the clock."""
    for arm, reasons in obstacles.items():
        yield f"{arm}, reproducible: no, because {one_line('; '.join(reasons))}"
    if not obstacles:
        yield "reproducible: yes"
