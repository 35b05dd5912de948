"""Experiments of the same title over time: each statement's verdicts and each arm's success rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from wirefault.core.errors import UserError
from wirefault.experiments.index import VERDICT, read_verdict, saved_ids, started_text
from wirefault.experiments.saved import SavedExperiment, load_saved
from wirefault.history.reader import HistoryError
from wirefault.judging.rates import Rate, rate

UNVERIFIED = "altered"
"""The verdict of a recording whose files were altered."""


@dataclass(frozen=True)
class TrendPoint:
    """One recorded experiment."""

    id: str
    verdict: str
    statements: Mapping[tuple[str, str], tuple[str, Mapping[str, Any]]]
    """Verdict and measured figures, by arm and statement."""
    success: Mapping[str, Rate]
    """By arm."""
    tags: Sequence[str] = ()
    content: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """The keys of its episodes and the names of its arms: what must be alike for a fair comparison."""

    @property
    def day(self) -> str:
        """The date and time of its id, ``2026-03-01 10:15``; an id without them as it is."""
        return started_text(self.id)[:-3] or self.id


@dataclass(frozen=True)
class Trend:
    """The recordings of one title, the oldest first."""

    title: str
    points: Sequence[TrendPoint]

    @property
    def statements(self) -> list[tuple[str, str]]:
        """Each arm and statement of any recording, in the order of the latest."""
        return list(dict.fromkeys(key for point in reversed(self.points) for key in point.statements))

    @property
    def changes(self) -> list[str]:
        """A sentence for each recording whose prompts or arms differ from the one before."""
        lines = []
        for before, after in pairwise(point for point in self.points if point.statements):
            if before.content != after.content:
                part = "prompts" if before.content[0] != after.content[0] else "arms"
                lines.append(f"the experiment's {part} changed on {after.day}; figures before are of another")
        return lines

    def streak(self, key: tuple[str, str]) -> tuple[str, TrendPoint, Counter[str]]:
        """The statement's latest verdict, the first recording since which it has it, and all its verdicts."""
        having = [point for point in self.points if key in point.statements]
        latest = having[-1].statements[key][0]
        since = having[-1]
        for point in reversed(having):
            if point.statements[key][0] != latest:
                break
            since = point
        return latest, since, Counter(point.statements[key][0] for point in having)


def read_trends(
    logs: Path,
    environ: Mapping[str, str],
    skipped: dict[str, str],
    *,
    title: str = "*",
    tag: str = "",
    last: int = 30,
) -> list[Trend]:
    """Return the trends of the experiments with a verdict, those run last first.

    ``skipped`` takes the recordings that cannot be read, with the reasons.
    ``title``: a pattern, ``*`` matches any part. ``tag``: only recordings with it. ``last``: so many of each.
    """
    of_title: dict[str, list[TrendPoint]] = {}
    for name in sorted(saved_ids(logs)):
        try:
            saved = load_saved(logs, name, environ)
            experiment = saved.plan.experiment
            if saved.plan.is_plain_run or not fnmatchcase(experiment.title.casefold(), title.casefold()):
                continue
            if (not tag or tag in experiment.tags) and (point := _point(saved)) is not None:
                of_title.setdefault(experiment.title, []).append(point)
        except (UserError, HistoryError, OSError) as error:
            skipped[name] = " ".join(str(error).split())
    trends = [Trend(name, points[-last:]) for name, points in of_title.items()]
    return sorted(trends, key=lambda trend: trend.points[-1].id, reverse=True)


def _point(saved: SavedExperiment) -> TrendPoint | None:
    """Return nothing without a verdict; an altered recording has no statements.

    Raises ``UserError``, ``HistoryError`` and ``OSError``.
    """
    tags = tuple(saved.plan.experiment.tags)
    if saved.evidence.alterations:
        return TrendPoint(saved.experiment_id, UNVERIFIED, {}, {}, tags)
    try:
        stored = read_verdict(saved.folder)
    except FileNotFoundError:  # killed before
        return None
    except ValueError as error:
        raise UserError(f"{saved.folder / VERDICT}: cannot be read: {error}") from None
    if stored.verdict is None:
        return None
    statements = {(check.arm, check.statement): (check.verdict, check.measured) for check in stored.checks}
    facts = {arm.name: saved.facts_of(arm) for arm in saved.plan.arms if saved.run_ids(arm)}
    success = {name: rate([e.judged.outcome for e in a.episodes], a.planned) for name, a in facts.items()}
    content = (
        frozenset(prompt.key for prompt in saved.plan.prompts),
        frozenset(arm.name for arm in saved.plan.arms),
    )
    return TrendPoint(saved.experiment_id, stored.verdict, statements, success, tags, content)
