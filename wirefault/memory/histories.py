"""Read the recorded experiments and runs into episodes of memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from wirefault.audit.result import findings_if_audit
from wirefault.core.errors import UserError
from wirefault.experiments.archive import archived_names, extracted
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.evidence import evidence_of
from wirefault.experiments.index import lone_runs, saved_ids
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.repeated import by_control
from wirefault.experiments.saved import SavedExperiment, load_saved
from wirefault.history.judged_events import Finding
from wirefault.history.reader import HistoryError, read_run
from wirefault.judging.judge import judge_run
from wirefault.memory.episodes import Remembered, remembered_episodes
from wirefault.memory.store import Memory


def sources_in(logs: Path) -> list[str]:
    """The ids of all experiments and lone runs, the archived ones included, oldest first."""
    return sorted({*saved_ids(logs), *lone_runs(logs), *archived_names(logs)})


def unremembered(memory: Memory, logs: Path) -> list[str]:
    """The recordings that memory was not built from, oldest first."""
    remembered = set(memory.sources()) if memory.exists else set()
    return [name for name in sources_in(logs) if name not in remembered]


def rebuilt(memory: Memory, logs: Path, environ: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Build memory from all recordings; the number of episodes, and why recordings were skipped."""
    skipped: dict[str, str] = {}
    sources = sources_in(logs)
    return memory.rebuild(recorded_episodes(logs, environ, skipped), sources, skipped), skipped


def recorded_episodes(
    logs: Path, environ: Mapping[str, str], skipped: dict[str, str]
) -> Iterator[Remembered]:
    """The episodes of all recordings. Altered and unreadable ones are skipped, and ``skipped`` gets
    the reason of each."""
    archived = archived_names(logs)
    for name in archived:
        with extracted(logs, name) as copy:
            yield from _episodes_below(copy, {**environ, "LOGS_DIR": str(copy)}, skipped)
    yield from _episodes_below(logs, environ, skipped, archived)


def _episodes_below(
    logs: Path, environ: Mapping[str, str], skipped: dict[str, str], archived: Collection[str] = ()
) -> Iterator[Remembered]:
    experiments = set(saved_ids(logs))
    for name in sorted({*experiments, *lone_runs(logs)} - set(archived)):
        try:
            if name in experiments:
                episodes = list(_experiment_episodes(load_saved(logs, name, environ), skipped))
            else:
                evidence_of(logs, name).require_unaltered()
                episodes = list(remembered_episodes(judge_run(read_run(logs, name)), name, name))
        except (UserError, HistoryError, OSError, ValueError) as error:
            skipped[name] = " ".join(str(error).split())
            continue
        yield from episodes


def _experiment_episodes(saved: SavedExperiment, skipped: dict[str, str]) -> Iterator[Remembered]:
    saved.facts.keeps_judgements = True
    audited = findings_if_audit(saved)
    for arm in saved.plan.arms:
        run_ids = saved.run_ids(arm)
        if not run_ids:
            continue
        for run_id in run_ids:
            try:
                yield from run_episodes(saved, arm, run_id, audited)
            except (HistoryError, OSError, ValueError) as error:  # its other runs are read
                skipped[run_id] = " ".join(str(error).split())


def run_episodes(
    saved: SavedExperiment,
    arm: PlannedArm,
    run_id: str,
    audited: Mapping[str, Sequence[Finding]] | None = None,
) -> list[Remembered]:
    """The episodes that the arm counts from this run of it. Raises as ``read_run`` does.

    ``audited``: an audit's findings, by episode.
    """
    facts = saved.facts_of(arm)
    judgement = saved.facts.judgement(run_id).by_control({} if arm.is_control else by_control(facts))
    twin = _twin_arm(saved, arm)
    episodes = remembered_episodes(judgement, run_id, saved.experiment_id, arm.name, twin, audited)
    return [each for each in episodes if _counts(each, facts)]


def _twin_arm(saved: SavedExperiment, arm: PlannedArm) -> str:
    """The control with the same prompts; empty for a control, and for an experiment without one."""
    control = saved.calm_arm(arm)
    return control.name if control.is_calm and not arm.is_calm else ""


def _counts(episode: Remembered, facts: ArmFacts) -> bool:
    """Whether the arm counts the episode from this run; an interrupted one only if no run completed it."""
    if episode.result == "interrupted":
        return episode.key not in facts.source
    return facts.source.get(episode.key) == episode.run_id
