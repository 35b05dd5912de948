"""The experiment as data: prompts, steady state, arms, hypothesis. One model for files and Python.

Experiment(
    title="A lost reply is not ordered again",
    wiring="wirefault.yaml",
    method=Arm(faults="lost-replies"),
    hypothesis=["no duplicate", "success == all"],
)
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from wirefault.core.errors import nearest
from wirefault.core.identity import text_digest
from wirefault.core.plugins import any_function_name, is_known_here
from wirefault.experiments.checks import AnotherName, Check, has_checks
from wirefault.experiments.estimates import Population, Terms
from wirefault.experiments.expression import Confidence
from wirefault.experiments.hypothesis import checked_text
from wirefault.experiments.matrix import Matrix
from wirefault.experiments.perturbations import PERTURBATIONS, Perturbation
from wirefault.experiments.safety import Safety, Spending
from wirefault.settings.budgets import BudgetsGiven
from wirefault.settings.settings import NAMES
from wirefault.subjects.function import check_function, function_label
from wirefault.wiring.spec_file import Spec
from wirefault.wiring.subject_spec import Command

_MAX_TITLE = 120


CONTROL = "control"
AFTER = "control-after"
METHOD = "method"
# the only arm of an experiment without faults
ALONE = "checks"
_ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# settings that inject faults, and settings with a separate key
_FAULTS = ("faults", "toxic_prob", "error_prob")
_OWN_KEYS = ("seed", "faults", "budgets")


def perturbed_name(arm: str, perturbation: str) -> str:
    """The name of the arm with perturbed prompts."""
    return f"{arm}.{perturbation}" if perturbation else arm


def name_before_perturbation(arm: str) -> str:
    """The name of the same arm with the prompts as they are written."""
    name, _, end = arm.rpartition(".")
    return name if end in PERTURBATIONS else arm


def _known_settings(settings: dict[str, Any]) -> dict[str, Any]:
    for name in settings:
        if name in _OWN_KEYS:
            raise ValueError(f"{name} has a separate key, outside `settings`")
        if name not in NAMES:
            raise ValueError(f"{name} is not a setting{nearest(name, NAMES)}")
    return settings


def _striking(settings: dict[str, Any]) -> str:
    """The first setting that injects faults; empty if none does. Values from the command line are texts."""
    return next((name for name in _FAULTS if str(settings.get(name, 0)) not in ("", "0", "0.0")), "")


def _without_faults(settings: dict[str, Any]) -> dict[str, Any]:
    if name := _striking(settings):
        raise ValueError(
            f"{name}: would affect the control arm, too, which must have no faults; move it to `method`"
            " or to a variant"
        )
    return settings


def _checked_subject(value: Any) -> Any:
    """A name, or a function or object that can be called with a prompt."""
    if not isinstance(value, str):
        check_function(value)
    return value


def _subject_name(value: Any) -> str:
    return value if isinstance(value, str) else f"{IN_PLACE}{function_label(value)}"


# the name of a subject that is a function of the process that ran the experiment
IN_PLACE = "in place: "
SubjectGiven = Annotated[
    Any,
    BeforeValidator(_checked_subject),
    PlainSerializer(_subject_name, when_used="json"),
    WithJsonSchema({"type": "string"}),
]


def _with_names(entry: Any) -> Any:
    """Replace functions by their names: ``next_turn``, or the last of ``turns``."""
    if not isinstance(entry, dict):
        return entry
    turns = entry.get("turns")
    if isinstance(turns, list) and turns and callable(turns[-1]):
        first = {"prompt": turns[0]} if len(turns) == 2 else {"turns": turns[:-1]}
        entry = {key: value for key, value in entry.items() if key != "turns"} | first
        entry["next_turn"] = turns[-1]
        entry.setdefault("id", f"turns-{text_digest(' '.join(map(str, turns[:-1])), 4).hex()}")
    if callable(entry.get("next_turn")):
        entry = {**entry, "next_turn": any_function_name(entry["next_turn"])}
    return entry


PromptEntry = Annotated[str | dict[str, Any], BeforeValidator(_with_names)]
FaultsGiven = str | dict[str, Any] | list[str | dict[str, Any]]
ToleranceText = Annotated[str, AfterValidator(lambda text: checked_text(text, with_control=False))]
SettingValues = Annotated[dict[str, str | int | float], AfterValidator(_known_settings)]


# the steady state where no oracle judges success
ANSWERS = ("crash == 0", "runaway == 0")


class Baseline(Spec):
    """The control arm: same prompts and draws, no faults."""

    settings: Annotated[SettingValues, AfterValidator(_without_faults)] = Field(
        default_factory=dict, description="settings of this arm only, by their names in docs/settings.md"
    )


class Arm(Spec):
    """An arm with faults, and its additional hypothesis."""

    faults: FaultsGiven = Field(
        "", description="a preset, a fault, a file in this folder, an inline fault set, or a list of these"
    )
    settings: SettingValues = Field(
        default_factory=dict, description="settings of this arm only, such as toxic_prob"
    )
    budgets: BudgetsGiven = Field(
        None, description="limits on usage in this arm, instead of the experiment's `budgets`"
    )
    dose: float = Field(
        1,
        gt=0,
        le=100,
        description="a factor for all its probabilities, up to 1; `plan` lists those that it limits",
    )
    checks: list[Check] = Field(
        default_factory=list, description="what must hold in this arm, too; docs/statements.md"
    )
    hypothesis: list[AnotherName] = Field(default_factory=list, description="another name of `checks`")
    assertions: list[AnotherName] = Field(default_factory=list, description="another name of `checks`")

    @property
    def breaks_something(self) -> bool:
        """True for budgets too: they refuse requests that the control arm may make."""
        return bool(self.faults or self.budgets or _striking(self.settings))


class AgentArm(Spec):
    """An arm of a tournament: how its agent differs from the agents of the other arms."""

    command: Command | None = Field(
        None, description="its agent's command, instead of the wiring's subject; run once per attempt"
    )
    subject: str | dict[str, Any] = Field(
        "", description="its agent as in --subject, or a `subject` of a wiring; instead of `command`"
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="variables that its agent's process has in addition"
    )
    settings: Annotated[SettingValues, AfterValidator(_without_faults)] = Field(
        default_factory=dict, description="settings of this arm only, such as `model`"
    )
    recovery: str | None = Field(
        None, description="the mitigations of the lab's agent, as in the setting RECOVERY"
    )

    @property
    def chosen_settings(self) -> dict[str, str | int | float]:
        """Its settings with its mitigations."""
        return {**self.settings, **({} if self.recovery is None else {"recovery": self.recovery})}

    @model_validator(mode="after")
    def _has_one_agent(self) -> AgentArm:
        if self.command and self.subject:
            raise ValueError("command: set `command` or `subject`, not both")
        if self.env and isinstance(self.subject, str) and self.subject:
            raise ValueError("env: needs a `command`, or the wiring's subject; --subject runs without one")
        if self.recovery is not None and "recovery" in self.settings:
            raise ValueError("recovery: is in `settings`, too")
        return self


class Experiment(Spec):
    """An experiment as written by a user. Paths are relative to the folder of its file."""

    title: str = Field("", description="the claim under test, in a sentence; by default its `checks`")
    description: str = ""
    tags: list[str] = Field(default_factory=list)
    wiring: str | dict[str, Any] = Field(
        "lab", description="`lab`, or a wiring file with the subject and its links, or its content"
    )
    subject: SubjectGiven = Field("", description="the agent, as in --subject, instead of the wiring's")
    prompts: str | list[PromptEntry] = Field(
        "", description="a prompts file, or its entries; by default the wiring's"
    )
    only: list[str] = Field(default_factory=list, description="only the prompts with these ids or places")
    perturb: list[Perturbation] = Field(
        default_factory=list,
        description="run each arm also with the prompts perturbed, each in these ways, under the same draws",
    )
    repeats: int = Field(1, ge=1, le=10_000, description="how often each prompt is run, with its own draws")
    replies: bool = Field(
        False,
        description="print what the upstream said, what the agent got and what it answered, for each arm",
    )
    until_decided: bool = Field(
        False,
        description="instead of `repeats`: repeat the prompts until sequential tests decide the claims, or a"
        " limit is reached",
    )
    safety: Safety = Field(Safety(), description="limits on the harm that it may do")
    limits: Spending = Field(Spending(), description="limits on time and cost; beyond them no episode begins")
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="seed of all draws, the same in each arm; random by default"
    )
    settings: Annotated[SettingValues, AfterValidator(_without_faults)] = Field(
        default_factory=dict, description="settings of all arms"
    )
    budgets: BudgetsGiven = Field(
        None, description="limits on usage in all arms, also without faults; may name a file in this folder"
    )
    steady_state: list[ToleranceText] = Field(
        default_factory=lambda: ["success_share >= 50 %"],
        min_length=1,
        description="statements that must hold for the control arm, before and after the others; by default,"
        " if no prompt has an oracle, and in a tournament, `crash == 0` and `runaway == 0`",
    )
    confidence: Confidence = Field(
        0.9, description="of the intervals that decide claims, two-sided: 90 % leaves 5 % on each side"
    )
    population: Population = Field(
        "these",
        description="what claims are about: `these` prompts, or prompts `like_these`, whose repeats count"
        " together",
    )
    baseline: Baseline = Baseline()
    faults: FaultsGiven = Field("", description="the faults of the only arm, instead of `method`")
    checks: list[Check] = Field(
        default_factory=list,
        description="what must hold in each arm with faults, or in the only arm without; docs/statements.md",
    )
    method: Arm | None = Field(None, description="the only arm with faults, instead of `variants`")
    variants: dict[str, Arm] = Field(default_factory=dict, description="arms by name, each with faults")
    arms: dict[str, AgentArm] = Field(
        default_factory=dict,
        description="a tournament: agents by name, compared under identical schedules of these faults",
    )
    matrix: Matrix | None = Field(
        None, description="every combination of these, each with its own control where that differs"
    )
    hypothesis: list[AnotherName] = Field(
        default_factory=list, description="another name of `checks`, for an experiment with faults"
    )
    assertions: list[AnotherName] = Field(default_factory=list, description="another name of `checks`")

    @property
    def terms(self) -> Terms:
        """The confidence and the population of its claims."""
        return Terms(self.confidence, self.population)

    @property
    def faulted_arms(self) -> dict[str, Arm]:
        """The arms with faults, by name."""
        if self.faults:
            return {METHOD: Arm(faults=self.faults)}
        return {METHOD: self.method} if self.method else dict(self.variants)

    @property
    def has_faults(self) -> bool:
        """Whether an arm has faults; else its checks carry the verdict alone."""
        return bool(self.faulted_arms or self.matrix)

    @property
    def is_in_place(self) -> bool:
        """Whether the subject is a function of this process."""
        return not isinstance(self.subject, str)

    def with_steady_state(self, *, has_oracle: bool) -> Self:
        """The same experiment with its steady state; by default, success needs an oracle to judge it.

        Without one, and in a tournament, the agent must answer.
        """
        if "steady_state" in self.model_fields_set or (has_oracle and not self.arms):
            return self.model_copy(update={"steady_state": self.steady_state})
        return self.model_copy(update={"steady_state": list(ANSWERS)})

    @model_validator(mode="before")
    @classmethod
    def _titled(cls, data: Any) -> Any:
        """Name an untitled experiment by what it checks."""
        checks = (data.get("checks") or data.get("assertions")) if isinstance(data, dict) else None
        if checks and "title" not in data:
            checks = checks if isinstance(checks, list) else []
            names = [check if isinstance(check, str) else getattr(check, "__name__", "") for check in checks]
            return {**data, "title": "; ".join(filter(None, names))[:_MAX_TITLE] or "its checks hold"}
        return data

    def _check_tournament(self) -> None:
        """Raise ``ValueError`` for arms that cannot be compared."""
        if self.arms and self.is_in_place:
            raise ValueError("arms: each names its agent; leave out `subject`")
        if self.arms and not (self.has_faults or self.faults):
            raise ValueError("arms: missing faults: set `method` or `variants`")
        for name, arm in self.arms.items():
            if not _ARM_NAME.fullmatch(name):
                raise ValueError(f"arms.{name}: a name is 1 to 40 of letters, digits and ._-")
            if self.subject and (arm.command or arm.subject or arm.env):
                raise ValueError(f"arms.{name}: the experiment's `subject` replaces its agent: leave it out")

    @model_validator(mode="after")
    def _is_complete(self) -> Experiment:
        if not self.title:
            raise ValueError(
                "title is missing: state the claim under test, in a sentence, or name its `checks`"
            )
        if len(set(self.perturb)) < len(self.perturb):
            raise ValueError("perturb: names a perturbation twice")
        own = bool(self.matrix and self.matrix.faults)
        self._check_tournament()
        if self.limits.episodes is not None and not self.until_decided:
            raise ValueError("limits.episodes: needs `until_decided: true`, or --until-decided")
        ways = bool(self.method) + bool(self.variants) + own + bool(self.faults)
        if ways > 1 or not (ways or self.checks or self.assertions):
            raise ValueError(
                "needs one of `method`, `variants` and `faults` of a `matrix`: the faults for the subject; or"
                " `faults` with `checks`, or `checks` alone"
            )
        if isinstance(self.subject, str) and not self.subject.startswith(IN_PLACE):
            for entry in self.prompts if isinstance(self.prompts, list) else ():
                if isinstance(entry, dict) and is_known_here(str(entry.get("next_turn", ""))):
                    raise ValueError(
                        "prompts: next_turn: must be a top-level function of an importable module: the agent"
                        " runs in another process"
                    )
        for name, arm in self.faulted_arms.items():
            if not _ARM_NAME.fullmatch(name) or name in (CONTROL, AFTER, ALONE):
                raise ValueError(
                    f"variants.{name}: a name is 1 to 40 of letters, digits and ._-, not {CONTROL}"
                )
            if name_before_perturbation(name) != name:
                raise ValueError(f"variants.{name}: a name must not end as those of perturbed arms do")
            if not arm.breaks_something:
                raise ValueError(
                    f"{name}: missing faults: set `faults`, `budgets`, or toxic_prob or error_prob in"
                    " `settings`"
                )
            if not (has_checks(self) or has_checks(arm) or self.arms):
                raise ValueError(
                    f"{name}: missing hypothesis: state what must hold (success == all) in `checks`"
                )
        return self
