"""The result of an experiment in Python: its verdict, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from wirefault.experiments.episode_view import EpisodeView, episode_views
from wirefault.experiments.measure import Number
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.verdict import ArmResult, Check, ExperimentVerdict


@dataclass(frozen=True)
class ArmReport:
    """One arm with its episodes; ``result`` has its measures."""

    result: ArmResult
    episodes: Sequence[EpisodeView]

    @property
    def name(self) -> str:
        """``control``, ``method``, ``control-after``, or the name of a variant."""
        return self.result.name

    @property
    def measures(self) -> Mapping[str, Number]:
        """Each measure as a number, which prints as its text with the interval."""
        return {name: Number.of(name, measure) for name, measure in self.result.measures.items()}


@dataclass(frozen=True)
class ExperimentReport:
    """The verdict of an experiment, with its arms and episodes."""

    result: ExperimentResult
    """With the files that it was saved to."""
    probed: Mapping[tuple[str, str, int], object]
    """The results of ``after_attempt``, by run, episode and attempt."""

    @property
    def verdict(self) -> ExperimentVerdict:
        """``held``, ``deviated``, ``unknown`` or ``aborted``."""
        assert self.result.judged is not None
        return self.result.judged.verdict

    @property
    def because(self) -> str:
        """The statement that decided."""
        assert self.result.judged is not None
        return self.result.judged.because

    @property
    def passed(self) -> bool:
        """Whether it held; unknown is not passed."""
        return self.verdict == "held"

    @property
    def checks(self) -> list[Check]:
        """Each statement about each arm."""
        assert self.result.judged is not None
        return self.result.judged.checks

    @cached_property
    def arms(self) -> Mapping[str, ArmReport]:
        """The arms that were run, by name."""
        planned = {arm.name: arm for arm in self.result.plan.arms}
        return {
            arm.name: ArmReport(arm, tuple(self._episodes(planned[arm.name]))) for arm in self.result.arms
        }

    @property
    def episodes(self) -> list[EpisodeView]:
        """The episodes of all arms, in the order in which they ran."""
        return [episode for arm in self.arms.values() for episode in arm.episodes]

    def _episodes(self, arm: PlannedArm) -> list[EpisodeView]:
        """The last run of each episode."""
        saved = self.result.saved
        episodes: dict[str, EpisodeView] = {}
        for run_id in saved.run_ids(arm):
            for view in episode_views(saved.facts.judgement(run_id)):
                probed = [
                    value
                    for (run, episode, _), value in self.probed.items()
                    if (run, episode) == (run_id, view.episode)
                ]
                episodes[view.episode] = replace(view, arm=arm.name, probed=probed)
        return list(episodes.values())

    def __str__(self) -> str:
        """The verdict and its checks; harm that the hypothesis does not ask about comes first."""
        lines = [*self.result.harm_beside, f"{self.verdict}: {self.because}"]
        for check in self.checks:
            more = "; ".join(filter(None, [check.figures, check.message]))
            lines.append(f"  {check.arm}: {check.statement}: {check.verdict}{f' ({more})' if more else ''}")
        return "\n".join(lines)
