"""The words around a chart: what it is about, and how sure that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.intervals import Interval, wilson
from windtunnel.report.charts.data import Prompt, Selection
from windtunnel.report.charts.text import count, percent, percent_range


@dataclass(frozen=True)
class Rate:
    """Successes among the prompts that count, and how many do not: invalid, unjudged, not yet judged."""

    successes: int
    n: int
    interval: Interval | None
    invalid: int
    unjudged: int

    @property
    def share(self) -> float | None:
        return self.successes / self.n if self.n else None

    def title(self) -> str:
        """``18 of 24 prompts succeeded (75 %, 95 % interval 55-88 %)``."""
        if self.share is None or self.interval is None:
            return "Success rate unknown: no prompt could be judged"
        sure = percent_range(self.interval.low, self.interval.high)
        prompts = "prompt" if self.n == 1 else "prompts"
        return (
            f"{self.successes} of {self.n} {prompts} succeeded ({percent(self.share)}, 95 % interval {sure})"
        )

    def left_out(self) -> str:
        """What the rate does not count, with the bounds that the invalid ones leave; empty if nothing."""
        parts = []
        if self.invalid:
            total = self.n + self.invalid
            bounds = percent_range(self.successes / total, (self.successes + self.invalid) / total)
            parts.append(f"{self.invalid} invalid (with them the rate lies in {bounds})")
        if self.unjudged:
            parts.append(f"{self.unjudged} unjudged")
        return f"Not counted: {' and '.join(parts)}" if parts else ""


def rate(prompts: list[Prompt]) -> Rate:
    counted = [prompt for prompt in prompts if prompt.counts]
    successes = sum(prompt.outcome == "success" for prompt in counted)
    invalid = sum(prompt.outcome == "invalid" for prompt in prompts)
    unjudged = len(prompts) - len(counted) - invalid
    return Rate(successes, len(counted), wilson(successes, len(counted)), invalid, unjudged)


def subtitle(selection: Selection) -> str:
    """Run, n, seed, subject; and whether the run came to its end."""
    runs = selection.runs
    n = f"n = {count(len(selection.prompts), 'prompt')}"
    subjects = _either([run.subject for run in runs], "subjects")
    stopped = [run for run in runs if run.unfinished]
    if not selection.several:
        ending = [f"UNFINISHED: {runs[0].unfinished}"] if stopped else []
        return " · ".join([f"run {runs[0].run_id}", n, *ending, f"seed {runs[0].seed}", subjects])
    ending = [f"{len(stopped)} UNFINISHED"] if stopped else []
    seeds = _either([f"seed {run.seed}" for run in runs], "seeds")
    return " · ".join([f"{len(runs)} runs", n, *ending, seeds, subjects])


def _either(values: list[str], plural: str) -> str:
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else f"{len(distinct)} {plural}"
