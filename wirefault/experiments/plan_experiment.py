"""Make the plan of an experiment's file: read and check everything that it names. Runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.registry import (
    AssertionEntry,
    NamesOfWiring,
    located,
    names_of,
    rated_check,
)
from wirefault.experiments.checks import (
    HasChecks,
    episode_checks_in,
    place_of,
    rates_in,
    statements_in,
)
from wirefault.experiments.experiment import AFTER, ALONE, CONTROL, AgentArm, Arm, Experiment, FaultsGiven
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.experiments.matrix import MAX_ARMS
from wirefault.experiments.perturbations import perturbed
from wirefault.experiments.plan import ExperimentPlan, PlannedArm, at_dose, with_shadows
from wirefault.experiments.planned_prompts import (
    drawn_prompts,
    experiment_prompts,
    repeated_prompts,
    same_texts_together,
)
from wirefault.experiments.safety import untouchable, within_radius
from wirefault.experiments.sequential import DEFAULT_CAP, sequential_claims, why_not_sequential
from wirefault.faults.sets.conditions import Only
from wirefault.faults.sets.presets import find_set, read_canonical
from wirefault.settings.budgets import Budgets
from wirefault.settings.configuration import COMMAND_LINE, Configuration, load_configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.wiring.prompts import Prompt, Prompts
from wirefault.wiring.spec_file import SpecFile, read_spec_file
from wirefault.wiring.wiring import Wiring, build_wiring, lab_wiring, load_wiring

# Only the experiment's own faults count, not those set on this machine.
_CALM = {"faults": "", "budgets": "", "toxic_prob": "0", "error_prob": "0", "chaos_level": "1", "shadow": ""}


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
    has_oracle = any(entry.expect is not None for entry in loaded.entries)
    experiment = experiment.with_steady_state(has_oracle=has_oracle)
    source_file = replace(source_file, experiment=experiment)
    steady = tuple(experiment.steady_state)
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


def _wiring(source_file: ExperimentFile) -> Wiring:
    wiring = _common_wiring(source_file)
    for name, arm in source_file.experiment.arms.items():  # one: a tournament is an experiment for each arm
        wiring = _with_agent(source_file, wiring, name, arm)
    return wiring


def _common_wiring(source_file: ExperimentFile) -> Wiring:
    experiment = source_file.experiment
    if experiment.is_in_place:
        return _wiring_in_place(experiment.wiring, source_file)
    if isinstance(experiment.wiring, dict):
        file = SpecFile(f"{source_file.file.where}: wiring", experiment.wiring)
        return build_wiring(file, source_file.folder)
    name = experiment.wiring
    return lab_wiring() if name == "lab" else load_wiring(source_file.folder / name)


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


def _wiring_in_place(named: str | dict[str, Any], source_file: ExperimentFile) -> Wiring:
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
        keys = ("settings", error.setting), (error.setting,)
        places = [(*start, *key) for start in (place, ()) for key in keys]
        named = next((each for each in places if _has(source_file.file.data, each)), None)
        if error.source != COMMAND_LINE and (error.source or named is None):
            raise  # another file has it, or the environment
        raise source_file.file.error(named or place, error.problem) from None


def _has(data: Any, place: Sequence[str]) -> bool:
    for key in place:
        if not isinstance(data, Mapping) or key not in data:
            return False
        data = data[key]
    return True


def _passes(source_file: ExperimentFile, prompts: int) -> int:
    """How often all prompts may be run until the claims are decided."""
    cap = source_file.experiment.limits.episodes
    if cap is not None and cap < prompts:
        raise source_file.file.error(
            ("limits", "episodes"), f"must be at least {prompts}: one pass over the prompts"
        )
    return max(1, (cap or DEFAULT_CAP) // prompts)


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


def _each_perturbed(arms: Iterable[PlannedArm], perturbations: Iterable[str]) -> Iterator[PlannedArm]:
    """Each arm, followed by the same with perturbed prompts."""
    for arm in arms:
        yield arm
        yield from map(arm.perturbed, perturbations)


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
    asserted = tuple(_located(source_file, (), experiment, names))
    arm = PlannedArm(ALONE, configuration.settings, tuple(statements_in(experiment)), asserted)
    return ExperimentPlan(
        experiment,
        configuration,
        tuple(prompts),
        tuple(_each_perturbed([arm], others)),
        _replaced_subject(experiment),
        notes=tuple(loaded.notes),
        perturbed=others,
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
    if problem := _problem_with_episodes(settings.faults, [prompt.key for prompt in prompts]):
        raise source_file.file.error((*place, "faults"), problem)
    settings = _kept_in_radius(source_file, settings, prompts, wiring, place)
    hypothesis = (*statements_in(experiment), *statements_in(arm))
    names = names_of(wiring, _replaced_subject(experiment))
    asserted = (*_located(source_file, (), experiment, names), *_located(source_file, place, arm, names))
    variant = name.removesuffix(f"-x{arm.dose:g}")  # of a matrix with doses
    planned = PlannedArm(name, settings, hypothesis, asserted, variant=variant, level=arm.dose)
    return at_dose(planned, arm.dose) if arm.dose != 1 else planned


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


def _problem_with_episodes(faults: str, prompts: Sequence[str]) -> str:
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


def _located(
    source_file: ExperimentFile,
    place: tuple[str, ...],
    spec: HasChecks,
    known: NamesOfWiring,
) -> Iterator[AssertionEntry]:
    """The checks of each episode, with functions located and names checked; also names within rates."""
    rated = ((at, rated_check(name)) for at, name in rates_in(spec))
    for is_rated, checks in ((True, rated), (False, episode_checks_in(spec))):
        for at, entry in checks:
            try:
                whole = located(entry, source_file.folder, known)
            except ValueError as error:
                raise source_file.file.error((*place, *at), str(error)) from None
            if not is_rated:
                yield whole


def _check_personas(source_file: ExperimentFile, of_control: str, arms: Sequence[PlannedArm]) -> None:
    """A foreign agent sends no persona, and the lab has one scripted model for all arms."""
    for arm in arms:
        if arm.settings.persona != of_control:
            place = _place_of(source_file.experiment, arm.name)
            problem = "one scripted model answers in all arms: set this in the experiment's own `settings`"
            raise source_file.file.error((*place, "settings", "persona"), problem)


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


def _place_of_statement(experiment: Experiment, arm: str, text: str) -> tuple[str | int, ...]:
    """Where the file has a statement of that arm."""
    if arm in (CONTROL, AFTER):
        return "steady_state", experiment.steady_state.index(text)
    if (place := place_of(experiment, text)) is not None:
        return place
    own = experiment.faulted_arms.get(arm)
    if own is None or (place := place_of(own, text)) is None:
        return ("until_decided",)
    return *_place_of(experiment, arm), *place


def _place_of(experiment: Experiment, name: str) -> tuple[str, ...]:
    """Where the file has the arm; empty for the experiment's own ``faults``."""
    if experiment.faults:
        return ()
    return ("method",) if experiment.method else ("variants", name)


def _replaced_subject(experiment: Experiment) -> str:
    """The name that replaces the wiring's subject; empty for a function of this process."""
    own = [arm.subject for arm in experiment.arms.values() if isinstance(arm.subject, str) and arm.subject]
    return own[0] if own else "" if experiment.is_in_place else str(experiment.subject)
