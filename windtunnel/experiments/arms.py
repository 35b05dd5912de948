"""The plan of an experiment: arms with their settings, prompts with their repetitions. Flies nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windtunnel.core.lab_files import sample_prompts
from windtunnel.experiments.experiment import AFTER, CONTROL, Experiment
from windtunnel.experiments.experiment_file import ExperimentFile
from windtunnel.judging.prompts import Prompt, load_prompts, prompts_of_entries
from windtunnel.links.wiring import Wiring, lab_wiring, load_wiring
from windtunnel.settings.configuration import Configuration, load_configuration
from windtunnel.settings.settings import Settings, SettingsError
from windtunnel.settings.toxic_plan import plan_attempt

# Nothing strikes that the experiment does not name, whatever else is set on this machine.
_CALM = {"faults": "", "toxic_prob": "0", "error_prob": "0", "chaos_level": "1"}


@dataclass(frozen=True)
class PlannedArm:
    """``hypothesis``: what must hold in it; of the control, its steady state."""

    name: str
    settings: Settings
    hypothesis: tuple[str, ...]

    @property
    def is_control(self) -> bool:
        return self.name in (CONTROL, AFTER)


@dataclass(frozen=True)
class ExperimentPlan:
    """``configuration`` is that of the control arm, and of the lab. ``prompts`` has each repetition."""

    experiment: Experiment
    configuration: Configuration
    prompts: tuple[Prompt, ...]
    arms: tuple[PlannedArm, ...]

    @property
    def seed(self) -> int:
        return self.configuration.settings.seed

    @property
    def episodes(self) -> int:
        return len(self.prompts) * len(self.arms)

    def toxics_drawn(self, arm: PlannedArm) -> dict[str, int]:
        """In how many of the arm's first attempts each toxic will be armed, by its kind and link."""
        from windtunnel.faults.sets.canonical import read_canonical

        links = self.configuration.wiring.links
        entries = read_canonical(arm.settings.faults, arm.settings.chaos_level).on(links).toxics
        drawn: dict[str, int] = {}
        for prompt in self.prompts:
            for toxic in plan_attempt(arm.settings, links.tool_names, prompt.key, 1, entries, 0):
                name = f"{toxic.kind} on {toxic.link}"
                drawn[name] = drawn.get(name, 0) + 1
        return drawn


def plan_experiment(given: ExperimentFile, environ: Mapping[str, str]) -> ExperimentPlan:
    """Reads and validates all that the experiment names.

    Raises ``WiringError`` or ``PromptsError``, which name file and key.
    """
    experiment = given.experiment
    wiring = _wiring(given)
    base: dict[str, Any] = {**_CALM, **experiment.settings}
    if experiment.seed is not None:
        base["seed"] = experiment.seed
    control = _configured(given, environ, wiring, {**base, **experiment.baseline.settings}, ("baseline",))
    prompts = tuple(_repeated(_prompts(given, control), experiment.repeats))
    base["seed"] = control.settings.seed  # one that was drawn counts in all arms
    steady = tuple(experiment.steady_state)
    arms = [PlannedArm(CONTROL, control.settings, steady)]
    for name, arm in experiment.arms.items():
        place = ("method",) if experiment.method else ("variants", name)
        chosen = {**base, **arm.settings, "faults": _fault_set(arm.faults, given.folder)}
        settings = _configured(given, environ, wiring, chosen, place).settings
        arms.append(PlannedArm(name, settings, (*experiment.hypothesis, *arm.hypothesis)))
    arms.append(PlannedArm(AFTER, control.settings, steady))
    return ExperimentPlan(experiment, control, prompts, tuple(arms))


def _wiring(given: ExperimentFile) -> Wiring:
    name = given.experiment.wiring
    return lab_wiring() if name == "lab" else load_wiring(given.folder / name)


def _configured(
    given: ExperimentFile,
    environ: Mapping[str, str],
    wiring: Wiring,
    settings: Mapping[str, Any],
    place: Sequence[str],
) -> Configuration:
    try:
        return load_configuration(environ, settings, wiring)
    except SettingsError as error:
        raise given.file.error(place, str(error).removeprefix("command line: ")) from None


def _fault_set(faults: str | dict[str, Any], folder: Path) -> str:
    """As settings take it; a file is looked for beside the experiment first."""
    if not isinstance(faults, str):
        return json.dumps(faults)
    beside = folder / faults
    return str(beside) if faults and beside.is_file() else faults


def _prompts(given: ExperimentFile, configuration: Configuration) -> Sequence[Prompt]:
    """Those of the experiment, each of which must be good: one that is left out would change the figures."""
    named, only = given.experiment.prompts, given.experiment.only
    links = configuration.wiring.links
    if isinstance(named, str):
        path = given.folder / named if named else configuration.wiring.prompts or sample_prompts()
        if not path.is_file():
            raise given.file.error(("prompts",), f"there is no file {path}")
        loaded = load_prompts(path, only, links=links)
    else:
        loaded = prompts_of_entries(named, f"{given.file.where}: prompts", only, links)
    if loaded.problems:
        raise given.file.error(("prompts",), loaded.problems[0])
    return loaded.entries


def _repeated(prompts: Sequence[Prompt], repeats: int) -> Iterator[Prompt]:
    """Each prompt so often, the first time under its own key."""
    for number in range(1, repeats + 1):
        for prompt in prompts:
            yield prompt if number == 1 else replace(prompt, key=f"{prompt.key}.r{number}")


def dump_prompts(prompts: Sequence[Prompt]) -> str:
    """A prompts file with these prompts under these keys."""
    entries = []
    for prompt in prompts:
        said = {"turns": list(prompt.turns)} if prompt.turns else {"prompt": prompt.text}
        expected = {} if prompt.expect is None else {"expect": prompt.expect}
        entries.append({"id": prompt.key, **said, **expected})
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"
