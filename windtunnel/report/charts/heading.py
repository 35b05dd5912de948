"""The words around a chart: what it is about, and how sure that is. Pure."""

from __future__ import annotations

from collections import Counter

from windtunnel.judging.oracle.outcome import OUTCOMES
from windtunnel.judging.summary import Rate, rate
from windtunnel.report.charts.data import Selection
from windtunnel.report.charts.text import count, percent, percent_range


def success_rate(selection: Selection) -> Rate:
    """The same rate as in the run's summary; of several runs, over all their prompts."""
    outcomes = [name for prompt in selection.prompts for name in OUTCOMES if name == prompt.outcome]
    return rate(outcomes, selection.planned)


def success_title(overall: Rate) -> str:
    """``18 of 24 prompts succeeded (75 %, 95 % interval 55-88 %)``."""
    if overall.rate is None or overall.low is None or overall.high is None:
        return "Success rate unknown: no prompt could be judged"
    share = f"{percent(overall.rate)}, 95 % interval {percent_range(overall.low, overall.high)}"
    return f"{overall.k} of {count(overall.n, 'prompt')} succeeded ({share})"


def left_out(overall: Rate, selection: Selection) -> str:
    """What the rate does not count, with the bounds that it leaves; empty if nothing."""
    outcomes = Counter(prompt.outcome for prompt in selection.prompts)
    uncounted = [(outcomes[row.name], row.name) for row in OUTCOMES.values() if not row.in_rate]
    absent = overall.planned - overall.n - sum(number for number, _ in uncounted)
    numbers = [*uncounted, (absent, "without a verdict")]
    parts = [f"{number} {name}" for number, name in numbers if number]
    if not parts or overall.worst is None or overall.best is None:
        return ""
    bounds = percent_range(overall.worst, overall.best)
    them = "it" if overall.planned - overall.n == 1 else "them"
    return f"Not counted: {', '.join(parts)}; with {them} the rate lies in {bounds}"


def subtitle(selection: Selection) -> str:
    """Run, n, seed, subject; and whether the run came to its end."""
    runs = selection.runs
    n = f"n = {count(len(selection.prompts), 'prompt')}"
    subjects = _either([run.subject for run in runs], "subjects")
    stopped = [run.unfinished for run in runs if run.unfinished]
    if not selection.several:
        ending = [f"UNFINISHED: {stopped[0]}"] if stopped else []
        return " · ".join([f"run {runs[0].run_id}", n, *ending, f"seed {runs[0].seed}", subjects])
    ending = [f"{len(stopped)} UNFINISHED"] if stopped else []
    seeds = _either([f"seed {run.seed}" for run in runs], "seeds")
    return " · ".join([f"{len(runs)} runs", n, *ending, seeds, subjects])


def _either(values: list[str], plural: str) -> str:
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else f"{len(distinct)} {plural}"
