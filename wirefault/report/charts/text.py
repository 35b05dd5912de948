"""The words of the charts: figures, titles, and how sure they are.

Pure. What is not known is said, never shown as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wirefault.core.percent import percent
from wirefault.history.logs import strip_control
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.rates import Rate, rate
from wirefault.report.charts.data import Selection
from wirefault.stats.intervals import percentile

# A percentile needs values beyond it: with fewer than 20, p95 is the largest and is called that.
LEAST_FOR_P95 = 20


def duration(ms: float) -> str:
    """``0.4 ms``, ``12 ms``, ``1.25 s``, ``2 min 5 s``."""
    if ms < 9.95:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.3g} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def percent_range(low: float, high: float) -> str:
    return f"{round(low * 100)}-{round(high * 100)} %"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 prompt``, ``2 prompts``, ``2 tries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def words(name: str) -> str:
    """``false_success`` as ``false success``."""
    return name.replace("_", " ")


def spread(values: Sequence[float]) -> str:
    """Median and p95 in words; with too few values for p95 the largest instead."""
    middle = percentile(values, 50)
    if middle is None:
        return "no data"
    if len(values) == 1:
        return duration(middle)
    name, far = ("p95", 95) if len(values) >= LEAST_FOR_P95 else ("max", 100)
    return f"p50 {duration(middle)}, {name} {duration(percentile(values, far) or 0.0)}"


def printable(text: str, longest: int = 160) -> str:
    """On one line and in characters that the charts' font has; longer text ends in an ellipsis."""
    line = " ".join(strip_control(text).split())
    line = "".join(char if char <= "\u024f" or char in "↑↓·–…" else "?" for char in line)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def success_rate(selection: Selection) -> Rate:
    """The same rate as in the run's summary; of several runs, over all their prompts."""
    outcomes = [name for prompt in selection.prompts for name in OUTCOMES if name == prompt.outcome]
    return rate(outcomes, selection.planned)


def success_title(overall: Rate) -> str:
    """``18 of 24 prompts succeeded (75 %, 95 % interval 55-88 %)``."""
    if overall.rate is None or overall.low is None or overall.high is None:
        return "Success rate unknown: no prompt could be judged"
    share = f"{percent(overall.rate, decimals=0)}, 95 % interval {percent_range(overall.low, overall.high)}"
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
