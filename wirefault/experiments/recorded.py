"""Recordings by id: a lone run, or an experiment with the runs of its arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from wirefault.core.errors import InputError, UserError, nearest
from wirefault.experiments.arms import ArmFacts, ArmHistory, facts_of_one, read_arm
from wirefault.experiments.assertions.on_arm import Asserted
from wirefault.experiments.evidence import Evidence, evidence_of, latest_id
from wirefault.experiments.experiment import AFTER
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.index import recorded_runs, saved_ids, unknown_recording
from wirefault.experiments.plan import ExperimentPlan, PlannedArm, with_shadows
from wirefault.experiments.saved import SavedExperiment, load_saved
from wirefault.history.events import EpisodeJudged, EpisodeStarted, Event
from wirefault.history.judged_events import Finding
from wirefault.history.logs import strip_control
from wirefault.history.reader import HistoryError, read_run, with_ids
from wirefault.judging.judge import ByControl, RunJudgement, judge_run
from wirefault.judging.summary import Summary, summary_of
from wirefault.wiring.prompts import Prompt

# ids to suggest from a long list
_LAST = 8


@dataclass(frozen=True)
class RecordedArm:
    """The recorded part of an arm. ``planned`` has the keys of its episodes in the plan's order.

    A lone run is an arm without a name and without a plan. ``experiment`` has the arm and its control.
    """

    logs: Path
    name: str
    run_ids: Sequence[str]
    planned: Sequence[str] = ()
    experiment: tuple[SavedExperiment, PlannedArm] | None = None

    @cached_property
    def events(self) -> list[Event]:
        """The events as of one run. Raises ``InputError`` if they cannot be read."""
        return self._history.events if self.name else _events_of(self.logs, self.run_ids[0])

    @cached_property
    def _history(self) -> ArmHistory:
        judged = self.__dict__.get("judgements", {})  # of which nothing is read again
        known = {id: judged[id].events for id in judged}
        history = read_arm(self.logs, self.run_ids, len(self.planned), known)
        if not history.identified:
            raise InputError(f"the arm {self.name} cannot be read: {'; '.join(history.problems)}")
        return history

    @cached_property
    def judgements(self) -> Mapping[str, RunJudgement]:
        """Each run as judged now, with the control's facts, by id. Raises ``InputError``."""
        return {run_id: self._judgement(run_id) for run_id in self.run_ids}

    def _judgement(self, run_id: str) -> RunJudgement:
        try:
            if self.experiment is None or not self.name:  # ids of events without the run's name
                return judge_run(self.events).by_control(self.control)
            return self.experiment[0].facts.judgement(run_id).by_control(self.control)
        except (HistoryError, OSError, ValueError) as error:
            raise InputError(f"the history of {run_id} cannot be read: {error}") from None

    @cached_property
    def summary(self) -> Summary:
        """The summary, judged now. Raises ``InputError``."""
        if len(self.run_ids) == 1:
            return summary_of(self.judgements[self.run_ids[0]])
        try:
            return summary_of(self._history.judged(self._judged_once).by_control(self.control))
        except ValueError as error:
            raise InputError(f"{', '.join(self.run_ids)}: {error}") from None

    @property
    def _judged_once(self) -> Mapping[str, EpisodeJudged]:
        """The judgements of finished runs that also hold for all runs together."""
        runs = self.judgements.values()
        counts = Counter(judged.episode for run in runs for judged in run.episodes)
        ended = [run for run in runs if run.finished is not None and run.finished.completed]
        episodes = (judged for run in ended for judged in run.episodes)
        return {judged.episode: judged for judged in episodes if counts[judged.episode] == 1}

    @cached_property
    def control(self) -> Mapping[str, ByControl]:
        """The control's facts about its episodes, by episode; empty without a control."""
        if self.experiment is None:
            return {}
        saved, arm = self.experiment
        return saved.control_of(arm)

    @property
    def facts(self) -> ArmFacts:
        """Its facts, compared with the control where there is one. Raises ``ValueError``."""
        if self.experiment is None or not self.name:
            return facts_of_one(facts_of(self.name, self.events))
        saved, arm = self.experiment
        return saved.facts_of(arm)

    @property
    def asserted(self) -> Sequence[Asserted]:
        """The results of its assertions; empty for a lone run."""
        if self.experiment is None or not self.name:
            return ()
        saved, arm = self.experiment
        return saved.arm_result(arm).asserted

    @property
    def episodes(self) -> list[str]:
        """The keys of the recorded episodes, in the plan's order."""
        recorded = dict.fromkeys(event.episode for event in self.events if isinstance(event, EpisodeStarted))
        return [key for key in self.planned if key in recorded] if self.planned else list(recorded)

    @property
    def numbered_episodes(self) -> dict[int, str]:
        """The keys of the recorded episodes by number.

        The number of an episode is the place of its prompt in the prompts file, as the console prints it
        while the run lasts; where several have the same place, its own from 1 among the recorded ones.
        """
        starts = (event for event in self.events if isinstance(event, EpisodeStarted))
        places = {event.episode: event.place for event in starts}
        numbered = {places[key]: key for key in self.episodes}
        if len(numbered) == len(self.episodes) and 0 not in numbered:
            return numbered
        return dict(enumerate(self.episodes, start=1))

    def episode_named(self, name: str) -> str:
        """The key of an episode, given by key, by number, or else by place from 1 among the recorded ones.

        Raises ``InputError``.
        """
        recorded = self.episodes
        if name in recorded:
            return name
        if name.isdecimal() and (key := self.numbered_episodes.get(int(name))):
            return key
        if name.isdecimal() and 1 <= int(name) <= len(recorded):
            return recorded[int(name) - 1]
        if not recorded and self.experiment is not None:
            raise InputError(
                f"{self._text} has no episode yet; {self.experiment[0].resume_command} runs the rest"
            )
        raise InputError(
            f"{self._text} has no episode {name!r}; there are {len(recorded)}, by number or by key"
            f"{nearest(name, recorded[:_LAST] if len(recorded) > _LAST else recorded)}"
        )

    def run_of(self, episode: str) -> list[Event]:
        """The events of the run that the episode is shown by. Raises ``InputError``."""
        source = self._history.source.get(episode) if self.name else None
        for run_id in [source] if source else self.run_ids:
            events = _events_of(self.logs, run_id) if self.name else self.events
            if any(isinstance(event, EpisodeStarted) and event.episode == episode for event in events):
                return events
        raise InputError(f"{self._text} has no episode {episode!r}")

    @property
    def _text(self) -> str:
        return f"the arm {self.name}" if self.name else f"the run {self.run_ids[0]}"


@dataclass(frozen=True)
class Recording:
    """``arms`` by name, in the order they were run. ``experiment`` is None for a lone run."""

    id: str
    arms: Mapping[str, RecordedArm]
    evidence: Evidence
    experiment: SavedExperiment | None = None

    def arm(self, name: str | None) -> RecordedArm:
        """The arm of that name; ``default_arm`` without one. Raises ``InputError``."""
        if name is not None and name not in self.arms:
            raise InputError(f"{self.id} has no arm {name!r}{nearest(name, filter(None, self.arms))}")
        if name is not None:
            return self.arms[name]
        if (only := self.default_arm) is not None:
            return only
        if self.experiment is not None and not self.arms:
            again = self.experiment.resume_command
            raise InputError(f"{self.id} has no recorded run, it was stopped early; {again} runs it")
        raise InputError(f"{self.id} has several arms, name one by --arm: {', '.join(self.arms)}")

    def of_event(self, run_id: str, event: str) -> tuple[RecordedArm, str]:
        """Return arm and episode of an event, which evidence names ``RUN/EVENT``. Raises ``InputError``."""
        arm = next((arm for arm in self.arms.values() if run_id in arm.run_ids), None)
        if arm is None:
            raise InputError(f"{self.id} has no run {run_id!r}")
        named = dict(with_ids(_events_of(arm.logs, run_id)))
        episode = getattr(named.get(event), "episode", None)
        if not episode:
            problem = "belongs to no episode" if event in named else "is not in its history"
            raise InputError(f"the event {event} of {run_id} {problem}")
        return arm, episode

    @property
    def default_arm(self) -> RecordedArm | None:
        """The only arm with faults and the prompts as written, or the only one that was run; else None."""
        struck = [arm for name, arm in self.arms.items() if name not in self._others]
        alone = struck or list(self.arms.values())
        return alone[0] if len(alone) == 1 else None

    @property
    def _others(self) -> set[str]:
        """The controls, and the arms with perturbed prompts."""
        arms = self.experiment.plan.arms if self.experiment else ()
        return {arm.name for arm in arms if arm.is_calm or arm.perturbation}


def open_recording(logs: Path, name: str, environ: Mapping[str, str]) -> Recording:
    """Open the run or experiment with that id; ``latest`` is the newest.

    Raises ``InputError``, or ``AlteredError`` if a file was altered.
    """
    experiments = saved_ids(logs)
    if name == "latest":
        name = latest_id(logs)
    if name in experiments:
        return recording_of(load_saved(logs, name, environ))
    if name not in recorded_runs(logs):
        raise unknown_recording(logs, name)
    evidence = evidence_of(logs, name)
    evidence.require_unaltered()
    arm = RecordedArm(logs, "", (name,), experiment=_experiment_of(logs, name, environ))
    return Recording(name, {"": arm}, evidence)


def control_of_run(logs: Path, run_id: str, environ: Mapping[str, str]) -> Mapping[str, ByControl]:
    """Return the control's facts about the episodes of a run; empty for a lone run."""
    return RecordedArm(logs, "", (run_id,), experiment=_experiment_of(logs, run_id, environ)).control


def _experiment_of(
    logs: Path, run_id: str, environ: Mapping[str, str]
) -> tuple[SavedExperiment, PlannedArm] | None:
    """The experiment and the arm of that run; None for a lone run, and if the plan cannot be read."""
    names = [name for name in saved_ids(logs) if run_id.startswith(f"{name}-")]
    for name in names:
        try:
            saved = load_saved(logs, name, environ)
        except (UserError, OSError):  # then the run is shown as it is
            continue
        for arm in saved.plan.arms:
            if run_id in saved.run_ids(arm):
                return saved, arm
    return None


def recording_of(saved: SavedExperiment) -> Recording:
    """The arms of an experiment that were run."""
    logs = saved.plan.configuration.logs
    arms = {
        arm.name: RecordedArm(
            logs, arm.name, run_ids, [prompt.key for prompt in saved.prompts_of(arm)], (saved, arm)
        )
        for arm in saved.plan.arms
        if (run_ids := saved.run_ids(arm))
    }
    return Recording(saved.experiment_id, arms, saved.evidence, saved)


def stored_recording(saved: SavedExperiment) -> Recording | None:
    """What was recorded, by the stored plan, which has no secrets; what was judged is not judged again.

    None if it cannot be read.
    """
    try:
        stored = load_saved(saved.logs, saved.experiment_id, saved.plan.configuration.environ)
    except (UserError, OSError):  # the line about the page says why
        return None
    return recording_of(replace(stored, facts=saved.facts))


def findings_by_arm(saved: SavedExperiment) -> Mapping[str, Sequence[Finding]]:
    """The findings of each arm that was run, the gravest first; without those that cannot be read."""
    findings: dict[str, Sequence[Finding]] = {}
    for name, arm in recording_of(saved).arms.items():
        with suppress(InputError):  # the verdict says that it cannot be read
            findings[name] = arm.summary.findings
    return findings


def harm_beside_verdict(findings: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """Yield the harmful findings of an experiment that held: its hypothesis does not ask about them."""
    for name, of_arm in findings.items():
        harmful = [each for each in of_arm if each.severity == "harmful"]
        for rule in dict.fromkeys(each.rule for each in harmful):
            alike = [each for each in harmful if each.rule == rule]
            others = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
            text = (
                f"harmful, although the hypothesis held: {name}, {rule}: {alike[0].headline or alike[0].text}"
            )
            yield strip_control(f"{text} (episode {alike[0].episode}{others})")


def _events_of(logs: Path, run_id: str) -> list[Event]:
    try:
        return read_run(logs, run_id)
    except (HistoryError, OSError) as error:
        raise InputError(f"the history of {run_id} cannot be read: {error}") from None


def saved_plan(logs: Path, name: str, environ: Mapping[str, str]) -> tuple[SavedExperiment, Sequence[str]]:
    """The saved experiment of that id; for a run of one of its arms, also the arm's name.

    Raises ``InputError`` for an unknown id and for a run without a saved plan.
    """
    recording = open_recording(logs, name, environ)
    if recording.experiment is not None:
        return recording.experiment, ()
    if (owner := _experiment_of(logs, recording.id, environ)) is not None:
        saved, arm = owner
        return saved, [] if arm.is_calm else [arm.name]
    raise InputError(
        f"{recording.id} is a lone run without a saved plan;"
        f" wirefault runs verify {recording.id} ends with the line that repeats it"
    )


def repeated_part(plan: ExperimentPlan, episodes: Sequence[str], arms: Sequence[str]) -> ExperimentPlan:
    """The plan limited to these episodes (key or place) and these arms with faults; all by default.

    Draws are keyed by episode, so each meets the same faults. The control arms stay, since the others are
    judged against them. Raises ``InputError`` for an unknown name.
    """
    keys = {_prompt_named(plan.prompts, name).key for name in episodes}
    known = [arm.name for arm in plan.arms if not arm.is_calm]
    for name in arms:
        if name not in known:
            raise InputError(
                f"--arm {name}: the experiment has no such arm with faults{nearest(name, known)}"
            )
    perturbed = {name: _only(prompts, keys) for name, prompts in plan.perturbed.items()}
    selected = [
        arm
        for arm in plan.arms
        if not arm.is_calm and (not arms or arm.name in arms) and perturbed.get(arm.perturbation, True)
    ]
    if not selected:
        raise InputError(f"--episode {', '.join(episodes)}: {', '.join(arms)} does not have it")
    prompts = {arm.perturbation for arm in selected}
    calm = [arm for arm in plan.arms if arm.is_control or (arm.is_calm and arm.perturbation in prompts)]
    before, after = [arm for arm in calm if arm.name != AFTER], [arm for arm in calm if arm.name == AFTER]
    # some episodes alone are a fixed number
    until_decided = plan.experiment.until_decided and not keys
    return replace(
        plan,
        experiment=plan.experiment.model_copy(update={"until_decided": until_decided}),
        prompts=_only(plan.prompts, keys),
        perturbed={name: each for name, each in perturbed.items() if name in prompts},
        arms=with_shadows([*before, *selected, *after]),
    )


def _only(prompts: Sequence[Prompt], keys: Set[str]) -> tuple[Prompt, ...]:
    return tuple(prompt for prompt in prompts if not keys or prompt.key in keys)


def _prompt_named(prompts: Sequence[Prompt], name: str) -> Prompt:
    for prompt in prompts:
        if prompt.key == name:
            return prompt
    if name.isdecimal() and 1 <= int(name) <= len(prompts):
        return prompts[int(name) - 1]
    known = f"; there are {len(prompts)}, by place or by key{nearest(name, (p.key for p in prompts[:8]))}"
    raise InputError(f"--episode {name}: the experiment has no such episode{known}")
