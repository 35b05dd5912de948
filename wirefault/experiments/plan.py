"""The plan of an experiment: arms with their settings and doses, prompts with their repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Struct, structs

from wirefault.experiments.assertions.registry import AssertionEntry, rated_check
from wirefault.experiments.estimates import Terms, prompt_of
from wirefault.experiments.experiment import (
    AFTER,
    CONTROL,
    Experiment,
    name_before_perturbation,
    perturbed_name,
)
from wirefault.experiments.expression import RATE
from wirefault.experiments.figures import count_in, is_pass
from wirefault.experiments.hypothesis import parse_statements
from wirefault.experiments.sequential import SequentialPlan, sequential_claims
from wirefault.experiments.tries import tries_needed
from wirefault.faults.sets.fault_set import capped, scaled
from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.configuration import Configuration
from wirefault.settings.episode_faults import plan_attempt, shadow_text
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt, PromptsSource

_MAX_TRIES = 3  # the k of a surface where no statement names one
PLAIN_RUN = "run"  # the one arm of an experiment without a hypothesis
_CHANCES = ("toxic_prob", "error_prob")


def names_in(texts: Iterable[str]) -> list[str]:
    """The measures of the statements, each once."""
    statements = (statement for text in texts for statement in parse_statements(text))
    return list(dict.fromkeys(name for each in statements for name in each.expression.names))


def pass_name(k: int) -> str:
    """The measure of the chance that k tries at a prompt all succeed."""
    return f"pass^{k}"


class PlannedArm(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One arm with its settings, also as a stored plan has it.

    ``hypothesis`` is the control's steady state in a control arm. ``assertions`` have absolute function
    files. ``capped`` has the entries whose probability exceeds 1 at this dose, and so is 1.
    """

    name: str = msgspec.field(name="arm")
    settings: Settings
    hypothesis: tuple[str, ...]
    assertions: tuple[AssertionEntry, ...] = ()
    capped: tuple[str, ...] = ()
    variant: str = ""
    """The arm of the file whose faults it has, at any level; empty without faults."""
    level: float = 0.0
    """The factor for the probabilities of these faults; 0 without faults."""
    perturbation: str = ""
    """How its prompts are perturbed; empty if they are as written."""
    episodes: tuple[str, ...] | None = None
    """Keys of the only episodes that it runs, in a search; None: all."""

    @property
    def is_control(self) -> bool:
        """Whether it has the steady state: no faults, and the prompts as written."""
        return self.name in (CONTROL, AFTER)

    @property
    def is_calm(self) -> bool:
        """Whether it is a control, with the prompts as written or perturbed."""
        return name_before_perturbation(self.name) in (CONTROL, AFTER)

    @property
    def unleveled_name(self) -> str:
        """The name of the arm that it is a level of, with its perturbation."""
        return perturbed_name(self.variant, self.perturbation)

    @property
    def rated(self) -> Mapping[str, AssertionEntry]:
        """The checks of its statements about ``rate(CHECK)``, by that name."""
        names = names_in(self.hypothesis)
        return {name: rated_check(name) for name in names if name.startswith(RATE) and not count_in(name)}

    @property
    def entries(self) -> tuple[AssertionEntry, ...]:
        """The assertions, then the checks in ``rated``: all that is judged in each of its episodes."""
        return (*self.assertions, *self.rated.values())

    def perturbed(self, perturbation: str) -> PlannedArm:
        """The same arm with perturbed prompts. Without faults it shows only, and demands nothing."""
        named = structs.replace(self, name=perturbed_name(self.name, perturbation), perturbation=perturbation)
        return structs.replace(named, hypothesis=()) if self.is_control else named


@dataclass(frozen=True)
class ExperimentPlan:
    """A validated experiment.

    ``configuration`` is for the control arm and the lab. ``prompts`` has each repetition, ``perturbed`` the
    same for each perturbation, without those that it cannot change. ``subject`` replaces the wiring's.
    ``source`` is the file or the texts with all prompts, if a run can read them from there; else each run
    gets a file.
    """

    experiment: Experiment
    configuration: Configuration
    prompts: tuple[Prompt, ...]
    arms: tuple[PlannedArm, ...]
    subject: str = ""
    source: PromptsSource | None = None
    notes: tuple[str, ...] = ()
    """A line for each part of a foreign prompts file that has no counterpart."""
    perturbed: Mapping[str, tuple[Prompt, ...]] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    """The kind and the terms of a search, which plans its arms on the way; empty for other experiments."""

    def prompts_of(self, arm: PlannedArm) -> tuple[Prompt, ...]:
        """The prompts of the arm with each repetition."""
        prompts = self.perturbed.get(arm.perturbation, self.prompts)
        if arm.episodes is None:
            return prompts
        return tuple(prompt for prompt in prompts if prompt.key in arm.episodes)

    @property
    def is_plain_run(self) -> bool:
        """Whether it has no hypothesis, and so no verdict."""
        return self.arms[0].name == PLAIN_RUN

    @property
    def terms(self) -> Terms:
        """The confidence and the population of its claims."""
        return self.experiment.terms

    @property
    def leveled(self) -> list[PlannedArm]:
        """The arms that are levels of another, by --levels or by the doses of a matrix."""
        return [arm for arm in self.arms if arm.variant and arm.name != arm.unleveled_name]

    @property
    def passes(self) -> tuple[str, ...]:
        """The measures pass^k, pass@k and ``rate(COUNT)`` of its statements and its surface."""
        return tuple(dict.fromkeys((*self._stated_passes, *map(pass_name, self.surface_tries))))

    @property
    def surface_tries(self) -> tuple[int, ...]:
        """The k of its surface: one try, and the highest k of a statement, else up to three.

        Empty if it has neither perturbed prompts nor levels.
        """
        if not self.perturbed and not self.leveled:
            return ()
        stated = [tries_needed(name) for name in self._stated_passes if name.startswith("pass^")]
        prompts = Counter(prompt_of(prompt.key) for prompt in self.prompts)
        return tuple(sorted({1, max(stated) if stated else min(max(prompts.values()), _MAX_TRIES)}))

    @property
    def _stated_passes(self) -> tuple[str, ...]:
        names = names_in(text for arm in self.arms for text in arm.hypothesis)
        plain = (name.removeprefix("control_") for name in names)
        return tuple(dict.fromkeys(name for name in plain if is_pass(name) or count_in(name)))

    @property
    def sequential(self) -> SequentialPlan | None:
        """How it runs until its claims are decided; None for a fixed number of episodes.

        The arms of a tournament run until the tournament is decided.
        """
        if not self.experiment.until_decided or self.experiment.arms:
            return None
        claims = {
            arm.name: [claim for text in arm.hypothesis for claim in sequential_claims(text)]
            for arm in self.arms
            if arm.name != AFTER
        }
        keys = [prompt.key for prompt in self.prompts]
        of_these = self.experiment.population == "these"
        every = len(keys) // self.experiment.repeats if of_these else 1
        return SequentialPlan(claims, keys, every, CONTROL, self.terms.error)

    @property
    def seed(self) -> int:
        return self.configuration.settings.seed

    @property
    def episodes(self) -> int:
        return sum(len(self.prompts_of(arm)) for arm in self.arms)

    def toxics_drawn(self, arm: PlannedArm) -> dict[str, int]:
        """For each kind and link of toxic, the number of first attempts in which it will be armed."""
        links = self.configuration.wiring.links
        entries = read_canonical(arm.settings.faults, arm.settings.chaos_level).on(links).toxics
        drawn: dict[str, int] = {}
        for prompt in self.prompts_of(arm):
            plan = plan_attempt(arm.settings, links.tool_names, prompt.key, 1, entries, 0, prompt.tool_links)
            for name in dict.fromkeys(f"{toxic.kind} on {toxic.link}" for toxic in plan):
                drawn[name] = drawn.get(name, 0) + 1
        return drawn


def plan_plain_run(
    title: str, configuration: Configuration, prompts: Sequence[Prompt], subject: str, source: PromptsSource
) -> ExperimentPlan:
    """An experiment without a hypothesis: its only arm has the faults in the settings."""
    arms = (PlannedArm(PLAIN_RUN, configuration.settings, ()),)
    experiment = Experiment.model_construct(title=title)
    return ExperimentPlan(experiment, configuration, tuple(prompts), arms, subject, source)


def at_dose(arm: PlannedArm, dose: float) -> PlannedArm:
    """Multiply all probabilities by the dose, up to 1; what is drawn is drawn at every higher dose too."""
    faults = read_canonical(arm.settings.faults, arm.settings.chaos_level)
    chances = {name: getattr(arm.settings, name) * dose for name in _CHANCES}
    over = [*capped(faults, dose), *(name for name, chance in chances.items() if chance > 1)]
    dosed = scaled(faults, dose)
    settings = arm.settings.model_copy(
        update={
            "faults": dosed.dump() if dosed.faults or dosed.toxics else "",
            "chaos_level": 1.0,
            **{name: min(1.0, chance) for name, chance in chances.items()},
        }
    )
    return structs.replace(arm, settings=settings, capped=tuple(over))


def levels_of(plan: ExperimentPlan, levels: Sequence[float]) -> list[PlannedArm]:
    """Each arm with faults at each level (1 is as written), in the order of the levels."""
    return [_at_level(arm, level) for arm in plan.arms if not arm.is_calm for level in levels]


def _at_level(arm: PlannedArm, level: float) -> PlannedArm:
    variant = name_before_perturbation(arm.name)
    name = perturbed_name(f"{variant}-x{level:g}", arm.perturbation)
    return structs.replace(at_dose(arm, level), name=name, variant=variant, level=level)


def stressed(plan: ExperimentPlan, levels: Sequence[PlannedArm]) -> ExperimentPlan:
    """The plan with these arms between its controls."""
    before = [arm for arm in plan.arms if _is_before(arm)]
    return replace(plan, arms=with_shadows([*before, *levels, plan.arms[-1]]))


def with_shadows(arms: Sequence[PlannedArm]) -> tuple[PlannedArm, ...]:
    """The arms in their order; each control before them records the faults of its arms as shadows.

    Its arms have the same prompts, perturbed or not.
    """
    return tuple(
        structs.replace(arm, settings=_shadowed(arm, arms)) if _is_before(arm) else arm for arm in arms
    )


def _is_before(arm: PlannedArm) -> bool:
    return arm.is_calm and arm.name != AFTER


def _shadowed(control: PlannedArm, arms: Sequence[PlannedArm]) -> Settings:
    own = (arm for arm in arms if not arm.is_calm and arm.perturbation == control.perturbation)
    return control.settings.model_copy(
        update={"shadow": shadow_text({arm.name: arm.settings for arm in own})}
    )
