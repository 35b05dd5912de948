"""The experiments that the planner proposes for: an agent and its prompts, from a file or the lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.yaml_text import dump_yaml
from wirefault.experiments.cost import MIN_CONTROLS
from wirefault.experiments.experiment import CONTROL, Experiment
from wirefault.experiments.experiment_file import ExperimentFile, load_experiment
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.search.trials import planned_search
from wirefault.memory.planner.choose import Terms
from wirefault.memory.planner.planner import NextExperiment
from wirefault.wiring.spec_file import SpecFile, read_spec_file

_OWN_KEYS = ("faults", "method", "variants", "matrix", "arms", "hypothesis", "assertions", "checks")
_OTHER_KEYS = ("repeats", "until_decided", "perturb", "limits")
_INJECTING = ("toxic_prob", "error_prob")
_TITLE = "What to try next"


@dataclass(frozen=True)
class AgentSource:
    """An agent and its prompts; faults and hypotheses of the file are left out."""

    file: Path | None
    """None: ``./wirefault.yaml``, or the lab that ships."""
    data: Mapping[str, Any]
    """The experiment without faults."""

    @property
    def folder(self) -> Path:
        return self.file.parent if self.file else Path()

    def plan(self, changes: Mapping[str, Any], environ: Mapping[str, str]) -> ExperimentPlan:
        """The plan of the agent without faults. Raises ``InputError``."""
        data = {**self.data, **{key: value for key, value in changes.items() if key != "settings"}}
        data["settings"] = {**(self.data.get("settings") or {}), **changes.get("settings", {})}
        file = SpecFile(str(self.file or _TITLE), data)
        experiment: Experiment = file.check(Experiment, (), data)
        return plan_experiment(ExperimentFile(experiment, self.folder, file), environ)


def agent_source(file: Path | None, arm: str = "") -> AgentSource:
    """Read the agent of an experiment's file, with the settings of one of its arms. Raises ``InputError``."""
    if file is None:
        wiring = "wirefault.yaml" if Path("wirefault.yaml").is_file() else "lab"
        if arm:
            raise InputError(f"--arm {arm}: name the experiment's file")
        return AgentSource(None, {"title": _TITLE, "wiring": wiring, "checks": ["no crash"]})
    experiment = load_experiment(file).experiment  # refuses what is not an experiment
    raw = read_spec_file(file).data
    data = {key: value for key, value in raw.items() if key not in (*_OWN_KEYS, *_OTHER_KEYS)}
    if experiment.limits.time is not None or experiment.limits.cost is not None:
        data["limits"] = {key: value for key, value in raw["limits"].items() if key != "episodes"}
    settings = dict(raw.get("settings") or {})
    if arm:
        arms = experiment.faulted_arms
        if arm not in arms:
            raise InputError(f"--arm {arm}: unknown arm{nearest(arm, arms)}")
        own = arms[arm].settings
        settings |= {name: value for name, value in own.items() if name not in _INJECTING}
    title = f"{_TITLE}: {experiment.title}"[:120]
    data |= {"title": title, "settings": settings, "checks": ["no crash"]}
    return AgentSource(file, data)


def write_next(source: AgentSource, number: int, experiment: NextExperiment) -> Path:
    """Write the experiment beside the agent's file, whose paths it repeats. Raises ``OSError``."""
    stem = source.file.stem if source.file else "wirefault"
    target = source.folder / f"{stem}.next-{number}.yaml"
    proposal = experiment.proposal
    head = f"# Proposed by `wirefault search next`. {proposal.reason}: {proposal.because}.\n"
    target.write_text(head + dump_yaml(dict(experiment.experiment)), encoding="utf-8")
    return target


def plan_next(plan: ExperimentPlan, budget: int, choice: Terms, *, every_question: bool) -> ExperimentPlan:
    """The search for the next experiments, with the control alone. Raises ``InputError``."""
    if budget <= (calm_episodes := max(MIN_CONTROLS, len(plan.prompts))):
        raise InputError(
            f"--budget {budget}: the control alone runs {calm_episodes} episodes; allow more, or name fewer"
            " prompts by --only"
        )
    calm = plan.configuration.settings.model_copy(update={"shadow": "", "faults": ""})
    control = PlannedArm(CONTROL, calm, tuple(plan.experiment.steady_state), episodes=())
    terms = {"budget": budget, "choice": asdict(choice), "every_question": every_question}
    base = PlannedArm("next", calm, ())
    return planned_search(replace(plan, arms=(control,), perturbed={}), base, "next", terms, budget)
