"""The recorded episodes of a search, and the plan that it begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from wirefault.core.errors import UNKNOWN, InputError, UserError, nearest
from wirefault.experiments.cost import control_keys
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.planned_prompts import repeated_prompts
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import judge_experiment
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.settings.configuration import load_configuration

# episodes without an outcome, one after the other, that end a search
_MAX_OPEN = 5
# prompts for each counted episode, since some may be invalid
_SPARE = 2
# outcomes that are known also where no oracle judges the rest
_WITHOUT_ORACLE = frozenset(("duplicate", "runaway", "crash"))


def is_failure(outcome: str, failures: Sequence[str]) -> bool | None:
    """Whether an episode failed; None if that is unknown.

    ``failures`` are the outcomes that count as one; empty: all but ``success``.
    """
    if outcome == "invalid":
        return None
    if outcome == "unjudged":
        return False if failures and _WITHOUT_ORACLE.issuperset(failures) else None
    return outcome in failures if failures else outcome != "success"


class ShowsNothing(UserError):
    """The episodes of an arm have no outcome, so that a search cannot continue."""

    code = UNKNOWN


@dataclass(frozen=True)
class Trials:
    """The recorded episodes of a search. The experiment grows by an arm for each dose or set of faults."""

    saved: SavedExperiment
    failures: Sequence[str] = ()
    at_a_time: int = 1
    """Episodes that run side by side."""

    @property
    def arms(self) -> Mapping[str, PlannedArm]:
        """The arms until now, by name."""
        return {arm.name: arm for arm in self.saved.plan.arms}

    @property
    def unfinished(self) -> list[PlannedArm]:
        """The arms that have episodes left, after an interruption."""
        return [arm for arm in self.saved.plan.arms if len(self.episodes(arm.name)) < len(arm.episodes or ())]

    def episodes(self, name: str) -> list[EpisodeFacts]:
        """The recorded episodes of the arm, in the order in which it ran them; empty for an unknown arm."""
        if (arm := self.arms.get(name)) is None or arm.episodes is None:
            return []
        by_key = {episode.episode: episode for episode in self.saved.facts_of(arm).episodes}
        return [by_key[key] for key in arm.episodes if key in by_key]

    def failed(self, name: str, among: Sequence[str] | None = None) -> list[bool]:
        """Whether each of its episodes failed; episodes that leave this open are left out.

        ``among``: the keys of some of them; None: all.
        """
        episodes = (each for each in self.episodes(name) if among is None or each.episode in among)
        known = (is_failure(episode.judged.outcome, self.failures) for episode in episodes)
        return [each for each in known if each is not None]

    def further(self, arm: PlannedArm, keys: Sequence[str]) -> PlannedArm:
        """The arm with these further episodes."""
        known = self.arms.get(arm.name)
        before = known.episodes or () if known else ()
        return structs.replace(arm, episodes=(*before, *(key for key in keys if key not in before)))

    def require_outcomes(self, name: str) -> None:
        """Raise ``ShowsNothing`` if episodes of the arm are lost, or the last ones have no outcome."""
        facts = self.saved.facts_of(self.arms[name])
        if facts.missing:
            raise ShowsNothing(f"{name}: {facts.failure}")
        last = self.episodes(name)[-_MAX_OPEN:]
        if len(last) == _MAX_OPEN and all(is_failure(e.judged.outcome, self.failures) is None for e in last):
            why = last[-1].judged.why or "the prompts have no oracle: add `expect`, or name --failure crash"
            raise ShowsNothing(f"{name}: the last {_MAX_OPEN} episodes were {last[-1].judged.outcome}: {why}")

    def next_keys(self, name: str, count: int) -> list[str]:
        """Keys of the next episodes of the arm.

        Raises ``ShowsNothing`` if all were run.
        """
        recorded = {episode.episode for episode in self.episodes(name)}
        keys = [prompt.key for prompt in self.saved.plan.prompts if prompt.key not in recorded][:count]
        if len(keys) < count:
            raise ShowsNothing(f"{name}: too many of its episodes were invalid or unjudged")
        return keys

    def fresh_keys(self, name: str, count: int) -> list[str]:
        """As ``next_keys``, of prompts that no arm with faults has used."""
        used = {
            key for arm in self.arms.values() for key in arm.episodes or () if arm.name not in (CONTROL, name)
        }
        used |= {episode.episode for episode in self.episodes(name)}
        keys = [prompt.key for prompt in self.saved.plan.prompts if prompt.key not in used][:count]
        return keys if len(keys) == count else self.next_keys(name, count)

    @property
    def control_keys(self) -> list[str]:
        """Keys of the control's episodes before any step."""
        return control_keys(self.saved.plan)

    @property
    def control_problem(self) -> str | None:
        """Why the recorded control lacks its steady state, empty if it has it; None before its end."""
        if len(self.episodes(CONTROL)) < len(self.control_keys):
            return None
        judged = judge_experiment([self.saved.arm_result(self.arms[CONTROL])], self.saved.plan.terms)
        return "" if judged.verdict == "held" else judged.because


def search_plan(
    source: ExperimentFile, environ: Mapping[str, str], arm: str
) -> tuple[ExperimentPlan, PlannedArm]:
    """Return the plan with the control alone, and the arm with the faults that a search is about.

    Raises ``InputError``.
    """
    if source.experiment.is_in_place:
        raise InputError(
            "a search starts its agent for each episode, and the subject is a function of this process:"
            ' name it in the wiring, {"subject": {"python": "module:function"}}'
        )
    plan = plan_experiment(source, environ)
    faulted = {each.name: each for each in plan.arms if not each.is_calm and each.variant}
    if not faulted:
        raise source.file.error((), "has no faults: a search needs a `method` or `variants`")
    if arm and arm not in faulted:
        raise InputError(f"--arm {arm}: unknown arm{nearest(arm, faulted)}")
    if not arm and len(faulted) > 1:
        raise InputError(f"has several arms with faults, name one by --arm: {', '.join(faulted)}")
    chosen = faulted[arm] if arm else next(iter(faulted.values()))
    # without shadows, since the arms are unknown yet; without assertions: a search asks about outcomes
    calm = plan.configuration.settings.model_copy(update={"shadow": ""})
    control = structs.replace(
        next(each for each in plan.arms if each.name == CONTROL), episodes=(), settings=calm
    )
    return replace(plan, arms=(control,)), structs.replace(chosen, hypothesis=(), assertions=(), capped=())


def planned_search(
    plan: ExperimentPlan, base: PlannedArm, kind: str, terms: Mapping[str, Any], episodes: int
) -> ExperimentPlan:
    """The plan with the search's kind and terms, and with prompts for that many episodes of one arm."""
    times = max(1, -(-episodes * _SPARE // len(plan.prompts)))
    search = {"kind": kind, "terms": dict(terms), "prompts": len(plan.prompts)}
    search |= {"arm": base.name, "settings": base.settings.model_dump()}
    return replace(plan, prompts=tuple(repeated_prompts(plan.prompts, times)), search=search)


def base_arm(saved: SavedExperiment) -> PlannedArm:
    """The arm with the faults that a saved search is about."""
    search, own = saved.plan.search, saved.plan.configuration
    settings = load_configuration(own.environ, search["settings"], own.wiring).settings
    return PlannedArm(search["arm"], settings, (), variant=search["arm"], level=1.0)


def check_failures(failures: Sequence[str]) -> None:
    """Raise ``InputError`` for an unknown outcome."""
    known = [each for each in OUTCOMES if each not in ("success", "invalid", "unjudged")]
    for name in failures:
        if name not in known:
            raise InputError(f"--failure {name}: must be an outcome that is a failure{nearest(name, known)}")
