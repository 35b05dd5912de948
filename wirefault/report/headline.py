"""The summary's first figures, in words."""

from __future__ import annotations

from rich.text import Text

from wirefault.core.percent import percent
from wirefault.judging.rates import Rate
from wirefault.judging.summary import Summary

_BELOW_RATE = " " * 15


def headline(summary: Summary) -> Text:
    """The success rate, how those fared that met a fault, the first attempts, and what the interval is of."""
    text = Text(f"success        {_share(summary.success)}{_of_exposed(summary)}\n", style="bold")
    text.append(f"{_BELOW_RATE}{_bounds(summary.success)}\n" if summary.success.n else "", style="not bold")
    first = filter(None, (_share(summary.first_attempt), _interval(summary.first_attempt)))
    text.append(f"first attempt  {', '.join(first)}\n", style="not bold")
    return text.append(f"the interval speaks of {summary.success.population}", style="not bold dim")


def _share(rate: Rate) -> str:
    if rate.rate is None:
        return f"no data: none of {rate.planned} could be judged"
    return f"{_percent(rate.rate)} ({rate.k} of {rate.n}{'' if rate.n == rate.planned else ' judged'})"


def _of_exposed(summary: Summary) -> str:
    """How those fared to whom a fault was delivered; of these prompts alone, so without an interval."""
    exposed = summary.exposed
    if not summary.success.n:
        return ""
    return f"; of the {exposed.n} that met a fault {exposed.k}" if exposed.n else "; none met a fault"


def _interval(rate: Rate) -> str:
    if rate.low is None or rate.high is None:
        return ""
    return f"95 % interval {_percent(rate.low)} to {_percent(rate.high)}"


def _bounds(rate: Rate) -> str:
    """The interval, and what prompts without a verdict leave open."""
    if rate.n == rate.planned or rate.worst is None or rate.best is None:
        return _interval(rate)
    bounds = f"between {_percent(rate.worst)} and {_percent(rate.best)}"
    return f"{_interval(rate)}; of all {rate.planned} planned: {bounds}"


def _percent(share: float) -> str:
    return percent(share, decimals=0)
