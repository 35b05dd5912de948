"""Run a tournament: the experiments of its arms, once or in rounds until their difference is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError
from wirefault.experiments.index import saved_ids
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.run_experiment import ExperimentResult, judged_again
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.tournament import Contestant, Schedules, Table, table_of
from wirefault.history.events import AttemptArmed, Event, Exchange
from wirefault.history.reader import HistoryError, read_run

_FIRST_ROUND = 8
"""Episodes of an arm in the first round; with fewer no difference is decided."""
_GROWTH = 1.5
Try = tuple[str, ...]
"""Episode, attempt, link, fingerprint, call and try: everything but the seed that a draw is keyed by."""


def agent_of(plan: ExperimentPlan) -> str:
    """The name of the arm of a tournament that the plan is; empty for another experiment."""
    return next(iter(plan.experiment.arms), "")


def tournament_title(plan: ExperimentPlan) -> str:
    """The title of the file, without the arm."""
    return plan.experiment.title.removesuffix(f" [{agent_of(plan)}]")


def is_next_arm(before: ExperimentPlan, plan: ExperimentPlan) -> bool:
    """Whether the second plan is a further arm of the tournament of the first."""
    if not (agent_of(before) and agent_of(plan)) or agent_of(before) == agent_of(plan):
        return False
    return tournament_title(before) == tournament_title(plan)


def contests_in(plans: Sequence[ExperimentPlan]) -> Iterator[list[ExperimentPlan]]:
    """Yield the plans of each experiment, which is one, and of each tournament: one for each arm."""
    contest: list[ExperimentPlan] = []
    for plan in plans:
        if contest and not is_next_arm(contest[-1], plan):
            yield contest
            contest = []
        contest.append(plan)
    if contest:
        yield contest


def arm_id(tournament_id: str, place: int) -> str:
    """The id of the experiment of the arm at that place, from 1."""
    return f"{tournament_id}.{place}"


@dataclass(frozen=True)
class Tournament:
    """The experiments of its arms, in the order of the file."""

    id: str
    experiments: Sequence[SavedExperiment]

    @property
    def title(self) -> str:
        return tournament_title(self.experiments[0].plan)

    @property
    def logs(self) -> Path:
        return self.experiments[0].logs

    @property
    def seed(self) -> int:
        return self.experiments[0].plan.seed

    def with_extent(self, extent: int) -> Tournament:
        """The same with the first ``extent`` episodes of each arm."""
        return replace(self, experiments=[replace(each, extent=extent) for each in self.experiments])

    @property
    def is_whole(self) -> bool:
        """Whether all episodes of each arm were run."""
        return not any(saved.left_of(arm) for saved in self.experiments for arm in saved.plan.arms)


@dataclass(frozen=True)
class TournamentResult:
    """A tournament that was run: the result of each arm's experiment."""

    tournament: Tournament
    results: Sequence[ExperimentResult]

    def tables(self) -> list[Table]:
        """Compare the arms under each set of faults. Arms that were not run are left out."""
        saved = self.tournament.experiments
        first = saved[0].plan
        faulted = [arm.name for arm in first.arms if not arm.is_calm and not arm.perturbation]
        return [table for name in faulted if (table := self._table(name)) is not None]

    def _table(self, under: str) -> Table | None:
        contestants, schedules = [], {}
        for saved in self.tournament.experiments:
            arms = {arm.name: arm for arm in saved.plan.arms}
            if under not in arms or not saved.run_ids(arms[under]):
                continue
            name = agent_of(saved.plan)
            facts = saved.facts_of(arms[under])
            contestants.append(Contestant(name, facts, saved.facts_of(saved.calm_arm(arms[under]))))
            schedules[name] = _drawn(saved, arms[under])
        if len(contestants) < 2:
            return None
        first = self.tournament.experiments[0].plan
        return table_of(
            under,
            contestants,
            first.terms,
            until_decided=first.experiment.until_decided,
            schedules=compared_schedules(schedules),
        )

    def as_json(self) -> dict[str, Any]:
        tables = self.tables()
        return {
            "tournament": self.tournament.id,
            "title": self.tournament.title,
            "seed": self.tournament.seed,
            "decided": all(table.is_decided for table in tables) and bool(tables),
            "tables": [table.as_json() for table in tables],
            "experiments": [result.as_json() for result in self.results],
        }


def _drawn(saved: SavedExperiment, arm: PlannedArm) -> Mapping[tuple[str, ...], Sequence[str]]:
    drawn: dict[tuple[str, ...], Sequence[str]] = {}
    for run_id in saved.run_ids(arm):
        try:
            drawn |= drawn_faults(read_run(saved.logs, run_id))
        except (HistoryError, OSError):  # its facts say so
            continue
    return drawn


def save_tournament(plans: Sequence[ExperimentPlan], tournament_id: str) -> Tournament:
    """Save the plan of each arm. Raises ``OSError``."""
    extent = next(_rounds(plans[0]))
    saved = [save(plan, arm_id(tournament_id, place)) for place, plan in enumerate(plans, start=1)]
    return Tournament(tournament_id, saved).with_extent(extent)


def is_tournament(logs: Path, name: str) -> bool:
    """Whether that is the id of a tournament."""
    return arm_id(name, 1) in saved_ids(logs)


def load_tournament(logs: Path, name: str, environ: Mapping[str, str]) -> Tournament:
    """Load a saved tournament. Raises ``InputError``, or ``AlteredError`` if a file was altered."""
    known, place, saved = set(saved_ids(logs)), 1, []
    while arm_id(name, place) in known:
        saved.append(load_saved(logs, arm_id(name, place), environ))
        place += 1
    if not saved:
        raise InputError(f"{logs / 'experiments'}: unknown tournament {name}")
    return Tournament(name, saved)


def result_of(tournament: Tournament) -> TournamentResult:
    """Judge a tournament by its histories. Runs nothing."""
    return TournamentResult(tournament, [judged_again(saved) for saved in tournament.experiments])


def run_tournament(
    tournament: Tournament,
    run_one: Callable[[SavedExperiment], ExperimentResult],
    say: Callable[[str], None],
    ends: Callable[[ExperimentResult], bool],
) -> TournamentResult:
    """Run what is left of each arm; until decided in rounds, each with more episodes of all arms.

    ``run_one`` runs the rest of one experiment. ``ends``: whether nothing more must be run after it.
    """
    result = TournamentResult(tournament, ())
    reached = tournament.experiments[0].extent or 0
    for extent in _rounds(tournament.experiments[0].plan):
        if extent < reached:
            continue
        result = TournamentResult(tournament.with_extent(extent), ())
        results: list[ExperimentResult] = []
        for saved in result.tournament.experiments:
            results.append(run_one(saved))
            if ends(results[-1]):
                return replace(result, results=results)
        result = replace(result, results=results)
        tables = result.tables()
        for table in tables:
            say(f"{extent} episodes, {table.under}: {table.advice}")
        if all(table.is_decided for table in tables):
            break
    return result


def _rounds(plan: ExperimentPlan) -> Iterator[int]:
    """Yield the episodes of each arm at the end of each round; one round unless it runs until decided."""
    count = len(plan.prompts)
    if not plan.experiment.until_decided:
        yield count
        return
    passes = max(1, count // plan.experiment.repeats)
    end = 0
    while end < count:
        wanted = max(_FIRST_ROUND, _GROWTH * end)
        end = min(count, -(-int(wanted) // passes) * passes)
        yield end


def drawn_faults(events: Iterable[Event]) -> dict[Try, tuple[str, ...]]:
    """Return the faults that were drawn for each try, and the toxics of each attempt. Budgets are left out:
    what they refuse depends on what came before.
    """
    drawn: dict[Try, tuple[str, ...]] = {}
    for event in events:
        if isinstance(event, Exchange):
            names = (event.episode, event.attempt, event.link, event.fingerprint, event.call, event.try_)
            faults = sorted(fault.id or fault.kind for fault in event.faults if not fault.of_budget)
            drawn[tuple(map(str, names))] = tuple(faults)
        elif isinstance(event, AttemptArmed):
            toxics = sorted(f"{toxic.kind} on {toxic.link}" for toxic in event.toxics)
            drawn[event.episode, str(event.attempt)] = tuple(toxics)
    return drawn


def compared_schedules(arms: Mapping[str, Mapping[Try, Sequence[str]]]) -> Schedules:
    """Compare the arms, by name, on every call that at least two of them made."""
    made: defaultdict[Try, dict[str, Sequence[str]]] = defaultdict(dict)
    for name, drawn in arms.items():
        for call, faults in drawn.items():
            made[call][name] = faults
    shared = {call: by_arm for call, by_arm in made.items() if len(by_arm) > 1}
    different = [
        f"{' '.join(call)}: {'; '.join(f'{name} {list(faults)}' for name, faults in by_arm.items())}"
        for call, by_arm in shared.items()
        if len(set(map(tuple, by_arm.values()))) > 1
    ]
    return Schedules(len(shared), different)
