"""Run a tournament: the experiments of its arms, once or in rounds until their difference is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.cost import Cost, taken, total
from wirefault.experiments.index import saved_ids
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.run_experiment import ExperimentResult, judged_again
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.strategy import strategy_of
from wirefault.experiments.tournament import Contestant, Schedules, Table, pairings_of, table_of
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

    def with_experiment(self, saved: SavedExperiment) -> Tournament:
        """The same with this state of one of its experiments."""
        known = self.experiments
        return replace(self, experiments=[saved if each.folder == saved.folder else each for each in known])

    @property
    def faulted(self) -> list[str]:
        """The sets of faults under which its arms are compared."""
        arms = self.experiments[0].plan.arms
        return [arm.name for arm in arms if not arm.is_calm and not arm.perturbation]

    def contestants(self, under: str) -> Sequence[Contestant]:
        """The facts of each arm under these faults until its extent; arms that were not run are left out."""
        return [
            Contestant(agent_of(saved.plan), _until_now(saved, arm), _until_now(saved, saved.calm_arm(arm)))
            for saved, arm in self.arms_under(under)
        ]

    def arms_under(self, under: str) -> Iterator[tuple[SavedExperiment, PlannedArm]]:
        """Yield each experiment that ran these faults, with the arm that has them."""
        for saved in self.experiments:
            yield from ((saved, arm) for arm in saved.plan.arms if arm.name == under and saved.run_ids(arm))


def _until_now(saved: SavedExperiment, arm: PlannedArm) -> ArmFacts:
    return saved.facts_of(arm).only({prompt.key for prompt in saved.prompts_of(arm)})


@dataclass(frozen=True)
class TournamentResult:
    """A tournament that was run: the result of each arm's experiment."""

    tournament: Tournament
    results: Sequence[ExperimentResult]

    def tables(self) -> list[Table]:
        """Compare the arms under each set of faults. Arms that were not run are left out."""
        names = self.tournament.faulted
        return [table for name in names if (table := self._table(name)) is not None]

    def _table(self, under: str) -> Table | None:
        contestants = self.tournament.contestants(under)
        if len(contestants) < 2:
            return None
        first = self.tournament.experiments[0].plan
        drawn = {agent_of(saved.plan): _drawn(saved, arm) for saved, arm in self.tournament.arms_under(under)}
        return table_of(
            under,
            contestants,
            first.terms,
            until_decided=first.experiment.until_decided,
            schedules=compared_schedules(drawn),
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


class TournamentRounds:
    """Each arm once; until decided in rounds, each with more episodes of all arms. Pure."""

    def next(self, tournament: Tournament) -> Sequence[SavedExperiment]:
        """Return the experiments with episodes left in the first round that has some; empty at the end.

        An aborted experiment has none.
        """
        for extent in _rounds(tournament.experiments[0].plan):
            until_now = tournament.with_extent(extent)
            left = [
                saved
                for saved in until_now.experiments
                if not saved.end.aborted and strategy_of(saved.plan).next(saved) is not None
            ]
            if left or is_decided(until_now):
                return left
        return ()


def is_decided(tournament: Tournament) -> bool:
    """Whether each two arms differ under each set of faults, or are alike within the margin."""
    first = tournament.experiments[0].plan
    until_decided = first.experiment.until_decided
    return all(
        pairing.is_decided
        for under in tournament.faulted
        for pairing in pairings_of(tournament.contestants(under), first.terms, until_decided=until_decided)
    )


def run_tournament(
    tournament: Tournament,
    run_one: Callable[[SavedExperiment, Cost], ExperimentResult],
    say: Callable[[str], None],
    ends: Callable[[ExperimentResult], bool],
) -> TournamentResult:
    """Run what is left of each arm, round by round; say what is left before, and what was spent.

    ``run_one`` runs the rest of one experiment, given what is left of all. ``ends``: whether nothing more
    must be run after it.
    """
    rounds, results = TournamentRounds(), dict[Path, ExperimentResult]()
    tried = set[tuple[Path, int | None]]()
    costs = (strategy_of(saved.plan).cost(saved) for saved in tournament.experiments)
    expected, spent = total([cost for cost in costs if cost is not None]), list[Cost]()
    say(f"{tournament.title}: {expected.text}")

    def so_far() -> TournamentResult:
        ran = [results[each.folder] for each in tournament.experiments if each.folder in results]
        return TournamentResult(tournament, ran)

    while left := [each for each in rounds.next(tournament) if (each.folder, each.extent) not in tried]:
        for saved in left:
            tried.add((saved.folder, saved.extent))  # what a limit leaves of it is left for a resumption
            tournament = tournament.with_experiment(saved)
            result = results[saved.folder] = run_one(saved, expected.after(total(spent)))
            spent.append(taken(result.timing))
            if ends(result):
                say(f"{tournament.title}: {total(spent).text}")
                return so_far()
        for table in so_far().tables():
            say(f"{left[0].extent} episodes, {table.under}: {table.advice}")
    for saved in tournament.experiments:  # of a tournament that is resumed, those without anything left
        results.setdefault(saved.folder, judged_again(saved))
    say(f"{tournament.title}: {total(spent).text}")
    return so_far()


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
