"""The plan of an experiment: arms with their settings, prompts with their repetitions. Runs nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.registry import AssertionEntry, NamesOfWiring, located, names_of
from wirefault.experiments.estimates import Terms, prompt_of
from wirefault.experiments.experiment import (
    AFTER,
    ALONE,
    CONTROL,
    MAX_ARMS,
    AgentArm,
    Arm,
    Experiment,
    FaultsGiven,
    name_before_perturbation,
    perturbed_name,
)
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.experiments.hypothesis import parse_statements
from wirefault.experiments.measures import is_pass
from wirefault.experiments.perturbations import perturbed
from wirefault.experiments.planned_prompts import (
    drawn_prompts,
    experiment_prompts,
    repeated_prompts,
    same_texts_together,
)
from wirefault.experiments.safety import untouchable, within_radius
from wirefault.experiments.sequential import (
    DEFAULT_CAP,
    SequentialPlan,
    sequential_claims,
    why_not_sequential,
)
from wirefault.experiments.tries import tries_needed
from wirefault.faults.sets.conditions import Only
from wirefault.faults.sets.presets import find_set, read_canonical
from wirefault.settings.budgets import Budgets
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.episode_faults import plan_attempt, shadow_text
from wirefault.settings.settings import Settings, SettingsError
from wirefault.wiring.prompts import (
    Prompt,
    Prompts,
    PromptsSource,
)
from wirefault.wiring.spec_file import SpecFile, read_spec_file
from wirefault.wiring.wiring import Wiring, build_wiring, lab_wiring, load_wiring


def problem_with_episodes(faults: str, prompts: Sequence[str]) -> str:
    """Describe the first entry of the canonical set that names an unknown episode; empty if there is none.

    ``prompts`` are the keys. Such an entry would inject nothing, and the experiment would hold without a
    fault.
    """
    fault_set = read_canonical(faults)
    selectors = [
        *((fault.id, fault.only) for fault in fault_set.faults),
        *((toxic.id, toxic.only) for toxic in fault_set.toxics),
    ]
    for entry, only in selectors:
        for name in only.episodes:
            if not any(Only(episodes=(name,)).in_episode(key) for key in prompts):
                return f"{entry}: only: episodes: unknown prompt {name!r}{nearest(name, prompts)}"
    return ""


_MAX_TRIES = 3  # the k of a surface where no statement names one
PLAIN_RUN = "run"  # the one arm of an experiment without a hypothesis
_CHANCES = ("toxic_prob", "error_prob")
# Only the experiment's own faults count, not those set on this machine.
_CALM = {"faults": "", "budgets": "", "toxic_prob": "0", "error_prob": "0", "chaos_level": "1", "shadow": ""}


def pass_name(k: int) -> str:
    """The measure of the chance that k tries at a prompt all succeed."""
    return f"pass^{k}"


@dataclass(frozen=True)
class PlannedArm:
    """One arm with its settings.

    ``hypothesis`` is the control's steady state in a control arm. ``assertions`` have absolute function
    files. ``capped`` has the entries whose probability exceeds 1 at this dose, and so is 1.
    """

    name: str
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

    def perturbed(self, perturbation: str) -> PlannedArm:
        """The same arm with perturbed prompts. Without faults it shows only, and demands nothing."""
        named = replace(self, name=perturbed_name(self.name, perturbation), perturbation=perturbation)
        return replace(named, hypothesis=()) if self.is_control else named


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
        return Terms() if self.is_plain_run else self.experiment.terms

    @property
    def leveled(self) -> list[PlannedArm]:
        """The arms that are levels of another, by --levels or by the doses of a matrix."""
        return [arm for arm in self.arms if arm.variant and arm.name != arm.unleveled_name]

    @property
    def passes(self) -> tuple[str, ...]:
        """The measures pass^k and pass@k of its statements and its surface."""
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
        texts = (text for arm in self.arms for text in arm.hypothesis)
        names = (
            name.removeprefix("control_")
            for text in texts
            for statement in parse_statements(text)
            for name in statement.expression.names
        )
        return tuple(dict.fromkeys(name for name in names if is_pass(name)))

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
        from wirefault.faults.sets.presets import read_canonical

        links = self.configuration.wiring.links
        entries = read_canonical(arm.settings.faults, arm.settings.chaos_level).on(links).toxics
        drawn: dict[str, int] = {}
        for prompt in self.prompts_of(arm):
            plan = plan_attempt(arm.settings, links.tool_names, prompt.key, 1, entries, 0, prompt.tool_links)
            for name in dict.fromkeys(f"{toxic.kind} on {toxic.link}" for toxic in plan):
                drawn[name] = drawn.get(name, 0) + 1
        return drawn


def at_dose(arm: PlannedArm, dose: float) -> PlannedArm:
    """Multiply all probabilities by the dose, up to 1; what is drawn is drawn at every higher dose too."""
    from wirefault.faults.sets.fault_set import capped, scaled
    from wirefault.faults.sets.presets import read_canonical

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
    return replace(arm, settings=settings, capped=tuple(over))


def plan_plain_run(
    title: str, configuration: Configuration, prompts: Sequence[Prompt], subject: str, source: PromptsSource
) -> ExperimentPlan:
    """An experiment without a hypothesis: its only arm has the faults in the settings."""
    arms = (PlannedArm(PLAIN_RUN, configuration.settings, ()),)
    experiment = Experiment.model_construct(title=title)
    return ExperimentPlan(experiment, configuration, tuple(prompts), arms, subject, source)


def plan_experiment(source_file: ExperimentFile, environ: Mapping[str, str]) -> ExperimentPlan:
    """Read and validate everything that the experiment names.

    Raises ``InputError`` or ``PromptsError``, which name file and key.
    """
    experiment = source_file.experiment
    wiring = _wiring(source_file)
    if problem := untouchable(experiment.safety, wiring):
        raise source_file.file.error(("safety", "targets"), problem)
    base: dict[str, Any] = {**_CALM, **experiment.settings}
    if experiment.seed is not None:
        base["seed"] = experiment.seed
    base["budgets"] = _budgets(experiment.budgets, source_file.folder)
    control = _configured(
        source_file, environ, wiring, {**base, **experiment.baseline.settings}, ("baseline",)
    )
    loaded = experiment_prompts(source_file, control)
    if experiment.until_decided and not experiment.has_faults:
        raise source_file.file.error(("until_decided",), "needs an arm with faults")
    if experiment.until_decided:
        passes = _passes(source_file, len(loaded.entries))
        experiment = experiment.model_copy(update={"repeats": passes})
    if experiment.population == "like_these":
        loaded = same_texts_together(loaded)
    prompts = tuple(repeated_prompts(loaded.entries, experiment.repeats))
    if experiment.until_decided and experiment.population == "like_these":
        prompts = tuple(drawn_prompts(loaded.entries, len(prompts), control.settings.seed))
    base["seed"] = control.settings.seed  # a drawn seed is the same in all arms
    others = _perturbed(source_file, prompts, control.settings.seed)
    if not experiment.has_faults:
        return _without_faults(source_file, control, wiring, prompts, loaded, others)
    steady = tuple(experiment.steady)
    arms = [
        _planned_arm(source_file, environ, wiring, base, prompts, name, arm)
        for name, arm in experiment.faulted_arms.items()
    ]
    controls = PlannedArm(CONTROL, control.settings, steady), PlannedArm(AFTER, control.settings, steady)
    if not wiring.is_lab:
        _check_personas(source_file, control.settings.persona, arms)
    if len(arms) * (1 + len(others)) > MAX_ARMS:
        raise source_file.file.error(
            ("perturb",),
            f"makes {len(arms) * (1 + len(others))} arms with faults; at most {MAX_ARMS} are run",
        )
    calm = [controls[0], *map(controls[0].perturbed, others)]
    all_arms = with_shadows([*calm, *_each_perturbed(arms, others), controls[1]])
    if experiment.until_decided and not experiment.arms:
        _check_sequential(source_file, all_arms)
    return ExperimentPlan(
        experiment,
        control,
        prompts,
        all_arms,
        _replaced_subject(experiment),
        notes=tuple(loaded.notes),
        perturbed=others,
    )


def _each_perturbed(arms: Iterable[PlannedArm], perturbations: Iterable[str]) -> Iterator[PlannedArm]:
    """Each arm, followed by the same with perturbed prompts."""
    for arm in arms:
        yield arm
        yield from map(arm.perturbed, perturbations)


def _perturbed(
    source_file: ExperimentFile, prompts: Sequence[Prompt], seed: int
) -> dict[str, tuple[Prompt, ...]]:
    """The prompts that each perturbation of the experiment changes. Raises ``InputError`` for none."""
    by_name: dict[str, tuple[Prompt, ...]] = {}
    for place, name in enumerate(source_file.experiment.perturb):
        changed = [perturbed(prompt, name, seed) for prompt in prompts]
        by_name[name] = tuple(prompt for prompt in changed if prompt is not None)
        if not by_name[name]:
            why = "none has `paraphrases`" if name == "paraphrases" else "it changes none of these prompts"
            raise source_file.file.error(("perturb", place), f"{name}: {why}")
        if source_file.experiment.until_decided and len(by_name[name]) < len(prompts):
            raise source_file.file.error(
                ("perturb", place),
                f"{name}: with until_decided it must change all prompts; select some by `only`",
            )
    return by_name


def _replaced_subject(experiment: Experiment) -> str:
    """The name that replaces the wiring's subject; empty for a function of this process."""
    own = [arm.subject for arm in experiment.arms.values() if isinstance(arm.subject, str) and arm.subject]
    return own[0] if own else "" if experiment.is_in_place else str(experiment.subject)


def _without_faults(
    source_file: ExperimentFile,
    configuration: Configuration,
    wiring: Wiring,
    prompts: Sequence[Prompt],
    loaded: Prompts,
    others: Mapping[str, tuple[Prompt, ...]],
) -> ExperimentPlan:
    """One arm, whose checks carry the verdict, and the same for each perturbation."""
    experiment = source_file.experiment
    names = names_of(wiring, _replaced_subject(experiment))
    asserted = tuple(_located(source_file, (), experiment.all_assertions, names))
    arm = PlannedArm(ALONE, configuration.settings, tuple(experiment.statements), asserted)
    return ExperimentPlan(
        experiment,
        configuration,
        tuple(prompts),
        tuple(_each_perturbed([arm], others)),
        _replaced_subject(experiment),
        notes=tuple(loaded.notes),
        perturbed=others,
    )


def _passes(source_file: ExperimentFile, prompts: int) -> int:
    """How often all prompts may be run until the claims are decided."""
    cap = source_file.experiment.limits.episodes
    if cap is not None and cap < prompts:
        raise source_file.file.error(
            ("limits", "episodes"), f"must be at least {prompts}: one pass over the prompts"
        )
    return max(1, (cap or DEFAULT_CAP) // prompts)


def _check_sequential(source_file: ExperimentFile, arms: Sequence[PlannedArm]) -> None:
    """Raise ``InputError`` for statements that sequential tests cannot decide, and if there are none."""
    for arm in arms:
        for text in arm.hypothesis:
            if why := why_not_sequential(text, arm.settings.prompt_limit):
                place = _place_of_statement(source_file.experiment, arm.name, text)
                raise source_file.file.error(place, f"{text}: {why} (until_decided)")
    if not any(sequential_claims(text) for arm in arms for text in arm.hypothesis):
        raise source_file.file.error(
            ("until_decided",),
            "nothing to decide: state a claim about a rate, such as success_rate >= 0.9",
        )
    radius = source_file.experiment.safety.blast_radius
    if radius is not None and radius.episodes is not None:
        raise source_file.file.error(
            ("safety", "blast_radius", "episodes"),
            "is a share of a fixed number of episodes; leave it out with until_decided",
        )


def _planned_arm(
    source_file: ExperimentFile,
    environ: Mapping[str, str],
    wiring: Wiring,
    base: Mapping[str, Any],
    prompts: Sequence[Prompt],
    name: str,
    arm: Arm,
) -> PlannedArm:
    """The method, or a variant, combined with the experiment's common parts."""
    experiment = source_file.experiment
    place = _place_of(experiment, name)
    chosen = {**base, **arm.settings, "faults": _fault_set(arm.faults, source_file.folder, wiring)}
    if arm.budgets:
        chosen["budgets"] = _budgets(arm.budgets, source_file.folder)
    settings = _configured(source_file, environ, wiring, chosen, place).settings
    if problem := problem_with_episodes(settings.faults, [prompt.key for prompt in prompts]):
        raise source_file.file.error((*place, "faults"), problem)
    settings = _kept_in_radius(source_file, settings, prompts, wiring, place)
    hypothesis = (*experiment.statements, *arm.hypothesis)
    names = names_of(wiring, _replaced_subject(experiment))
    asserted = (
        *_located(source_file, (), experiment.all_assertions, names),
        *_located(source_file, place, arm.assertions, names),
    )
    variant = name.removesuffix(f"-x{arm.dose:g}")  # of a matrix with doses
    planned = PlannedArm(name, settings, hypothesis, asserted, variant=variant, level=arm.dose)
    return at_dose(planned, arm.dose) if arm.dose != 1 else planned


def _place_of_statement(experiment: Experiment, arm: str, text: str) -> tuple[str | int, ...]:
    """Where the file has a statement of that arm."""
    if arm in (CONTROL, AFTER):
        return "steady_state", experiment.steady.index(text)
    for key, texts in (("hypothesis", experiment.hypothesis), ("checks", experiment.checks)):
        if text in texts:
            return key, texts.index(text)
    own = experiment.faulted_arms.get(arm)
    if own is None or text not in own.hypothesis:
        return ("until_decided",)
    return *_place_of(experiment, arm), "hypothesis", own.hypothesis.index(text)


def _place_of(experiment: Experiment, name: str) -> tuple[str, ...]:
    """Where the file has the arm; empty for the experiment's own ``faults``."""
    if experiment.faults:
        return ()
    return ("method",) if experiment.method else ("variants", name)


def with_shadows(arms: Sequence[PlannedArm]) -> tuple[PlannedArm, ...]:
    """The arms in their order; each control before them records the faults of its arms as shadows.

    Its arms have the same prompts, perturbed or not.
    """
    return tuple(replace(arm, settings=_shadowed(arm, arms)) if _is_before(arm) else arm for arm in arms)


def _is_before(arm: PlannedArm) -> bool:
    return arm.is_calm and arm.name != AFTER


def _shadowed(control: PlannedArm, arms: Sequence[PlannedArm]) -> Settings:
    own = (arm for arm in arms if not arm.is_calm and arm.perturbation == control.perturbation)
    return control.settings.model_copy(
        update={"shadow": shadow_text({arm.name: arm.settings for arm in own})}
    )


def _wiring(source_file: ExperimentFile) -> Wiring:
    wiring = _common_wiring(source_file)
    for name, arm in source_file.experiment.arms.items():  # one: a tournament is an experiment for each arm
        wiring = _with_agent(source_file, wiring, name, arm)
    return wiring


def _with_agent(source_file: ExperimentFile, wiring: Wiring, name: str, arm: AgentArm) -> Wiring:
    """The wiring with the agent of that arm of a tournament."""
    data = dict(wiring.data)
    if arm.command:
        data["subject"] = {"command": arm.command}
    elif isinstance(arm.subject, dict):
        data["subject"] = arm.subject
    if arm.env and not (isinstance(data.get("subject"), dict) and "http" not in data["subject"]):
        problem = "needs an agent that is a process; the lab's agent has settings instead"
        raise source_file.file.error(("arms", name, "env"), problem)
    if arm.env:
        data["subject"] = {**data["subject"], "env": {**data["subject"].get("env", {}), **arm.env}}
    if data == wiring.data:
        return wiring
    where = f"{source_file.file.where}: arms.{name}"
    built = build_wiring(SpecFile(where, data), wiring.folder)
    return replace(built, file=wiring.file, arguments=wiring.arguments)


def _common_wiring(source_file: ExperimentFile) -> Wiring:
    experiment = source_file.experiment
    if experiment.is_in_place:
        return wiring_in_place(experiment.wiring, source_file)
    if isinstance(experiment.wiring, dict):
        file = SpecFile(f"{source_file.file.where}: wiring", experiment.wiring)
        return build_wiring(file, source_file.folder)
    name = experiment.wiring
    return lab_wiring() if name == "lab" else load_wiring(source_file.folder / name)


def wiring_in_place(named: str | dict[str, Any], source_file: ExperimentFile) -> Wiring:
    """The wiring of a function of this process: its connections are intercepted. Raises ``InputError``."""
    where, folder = f"{source_file.file.where}: wiring", source_file.folder
    if isinstance(named, str) and named != "lab":
        path = folder / named
        file, folder = read_spec_file(path), path.parent
    else:
        file = SpecFile(where, named if isinstance(named, dict) else {})
    data = {key: value for key, value in file.data.items() if key != "subject"}
    return build_wiring(replace(file, data={"intercept": {}, **data}), folder)


def _configured(
    source_file: ExperimentFile,
    environ: Mapping[str, str],
    wiring: Wiring,
    settings: Mapping[str, Any],
    place: Sequence[str],
) -> Configuration:
    try:
        return load_configuration(environ, settings, wiring)
    except SettingsError as error:
        raise source_file.file.error(place, str(error).removeprefix("command line: ")) from None


def _kept_in_radius(
    source_file: ExperimentFile,
    settings: Settings,
    prompts: Sequence[Prompt],
    wiring: Wiring,
    place: Sequence[str],
) -> Settings:
    radius = source_file.experiment.safety.blast_radius
    try:
        return within_radius(radius, settings, [prompt.key for prompt in prompts], wiring.links)
    except ValueError as error:
        raise source_file.file.error(place, str(error)) from None


def _check_personas(source_file: ExperimentFile, of_control: str, arms: Sequence[PlannedArm]) -> None:
    """A foreign agent sends no persona, and the lab has one scripted model for all arms."""
    for arm in arms:
        if arm.settings.persona != of_control:
            place = _place_of(source_file.experiment, arm.name)
            problem = "one scripted model answers in all arms: set this in the experiment's own `settings`"
            raise source_file.file.error((*place, "settings", "persona"), problem)


def _located(
    source_file: ExperimentFile,
    place: tuple[str, ...],
    entries: Sequence[AssertionEntry],
    known: NamesOfWiring,
) -> Iterator[AssertionEntry]:
    """The assertions, with functions located and names checked."""
    for number, entry in enumerate(entries):
        try:
            yield located(entry, source_file.folder, known)
        except ValueError as error:
            raise source_file.file.error((*place, "assertions", number), str(error)) from None


def _fault_set(faults: FaultsGiven, folder: Path, wiring: Wiring | None = None) -> str:
    """The fault set as a setting; a file in the experiment's folder comes first."""
    if isinstance(faults, list):
        return _fault_set(faults[0], folder) if len(faults) == 1 else _together(faults, folder, wiring)
    if not isinstance(faults, str):
        return json.dumps(_as_set(faults))
    beside = folder / faults
    return str(beside) if faults and beside.is_file() else faults


def _as_set(faults: dict[str, Any]) -> dict[str, Any]:
    """A fault set; one of its entries alone becomes a set."""
    if "fault" in faults:
        return {"faults": [faults]}
    return {"toxics": [faults]} if "toxic" in faults else faults


def _together(faults: Sequence[str | dict[str, Any]], folder: Path, wiring: Wiring | None) -> str:
    """One set with the entries of all of them. Raises ``FaultSetError``."""
    together: dict[str, list[Any]] = {"faults": [], "toxics": []}
    for part in faults:
        if isinstance(part, str):
            fault_set = find_set(_fault_set(part, folder), wiring.links if wiring else None)
            data = json.loads(fault_set.dump())
            for entry in (*data.get("faults", ()), *data.get("toxics", ())):
                if entry["id"] in (entry.get("fault"), entry.get("toxic")):
                    del entry["id"]  # numbered among equals again
        else:
            data = _as_set(part)
        for key, entries in together.items():
            entries += data.get(key, ())
    return json.dumps({key: entries for key, entries in together.items() if entries})


def _budgets(budgets: Budgets | str | None, folder: Path) -> str:
    """The budgets as a setting; a file in the experiment's folder comes first."""
    if isinstance(budgets, Budgets):
        return budgets.dump()
    return _fault_set(budgets or "", folder)


def levels_of(plan: ExperimentPlan, levels: Sequence[float]) -> list[PlannedArm]:
    """Each arm with faults at each level (1 is as written), in the order of the levels."""
    return [_at_level(arm, level) for arm in plan.arms if not arm.is_calm for level in levels]


def _at_level(arm: PlannedArm, level: float) -> PlannedArm:
    variant = name_before_perturbation(arm.name)
    name = perturbed_name(f"{variant}-x{level:g}", arm.perturbation)
    return replace(at_dose(arm, level), name=name, variant=variant, level=level)


def stressed(plan: ExperimentPlan, levels: Sequence[PlannedArm]) -> ExperimentPlan:
    """The plan with these arms between its controls."""
    before = [arm for arm in plan.arms if _is_before(arm)]
    return replace(plan, arms=with_shadows([*before, *levels, plan.arms[-1]]))
