"""What is repeated of an experiment that was flown: all of its plan, or some episodes and arms of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wirefault.core.spelling import nearest
from wirefault.core.user_errors import InputError
from wirefault.experiments.arms import ExperimentPlan, between_controls
from wirefault.experiments.recorded import open_recording
from wirefault.experiments.saved import load_saved
from wirefault.experiments.shelf import saved_ids
from wirefault.judging.prompts import Prompt


def saved_plan(logs: Path, name: str, environ: Mapping[str, str]) -> tuple[ExperimentPlan, Sequence[str]]:
    """The plan of that experiment; of a run that has flown one of its arms, with the arm's name beside it.

    ``latest`` is the last experiment begun. Raises ``InputError`` for what is not there, and for a run of
    which no plan was saved.
    """
    if name == "latest":
        return load_saved(logs, name, environ).plan, ()
    recording = open_recording(logs, name, environ)
    if recording.experiment is not None:
        return recording.experiment.plan, ()
    for experiment in saved_ids(logs):
        if recording.id.startswith(f"{experiment}-"):
            saved = load_saved(logs, experiment, environ)
            arms = [arm for arm in saved.plan.arms if recording.id in saved.run_ids(arm)]
            return saved.plan, [arm.name for arm in arms if not arm.is_control]
    raise InputError(
        f"{recording.id} is a run by itself, of which no plan was saved;"
        f" wirefault judge {recording.id} ends with the line that repeats it"
    )


def repeated_part(plan: ExperimentPlan, episodes: Sequence[str], arms: Sequence[str]) -> ExperimentPlan:
    """The plan with these episodes, by key or by place, and these arms with faults; all where none is named.

    Draws hang on an episode's key, so that each meets what it met. The control arms always stay: without them
    nothing could be said of the others. Raises ``InputError`` for a name that the plan does not have.
    """
    keys = {_prompt_named(plan.prompts, name).key for name in episodes}
    known = [arm.name for arm in plan.arms if not arm.is_control]
    for name in arms:
        if name not in known:
            raise InputError(
                f"--arm {name}: the experiment has no such arm with faults{nearest(name, known)}"
            )
    return replace(
        plan,
        prompts=tuple(prompt for prompt in plan.prompts if not keys or prompt.key in keys),
        arms=between_controls(
            (plan.arms[0], plan.arms[-1]),
            [arm for arm in plan.arms if not arm.is_control and (not arms or arm.name in arms)],
        ),
    )


def _prompt_named(prompts: Sequence[Prompt], name: str) -> Prompt:
    for prompt in prompts:
        if prompt.key == name:
            return prompt
    if name.isdecimal() and 1 <= int(name) <= len(prompts):
        return prompts[int(name) - 1]
    known = f"; there are {len(prompts)}, by place or by key{nearest(name, (p.key for p in prompts[:8]))}"
    raise InputError(f"--episode {name}: the experiment has no such episode{known}")
