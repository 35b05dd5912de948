"""The summary's first figures, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from wirefault.judging.findings.finding import Finding, Severity
from wirefault.judging.rates import Rate
from wirefault.judging.summary import Summary
from wirefault.judging.usage import ModelUsage
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

_BELOW_RATE = " " * 15


def headline(summary: Summary) -> Text:
    """The success rate, how those fared that met a fault, the first attempts, and what the interval is of."""
    text = Text(f"success        {_share(summary.success)}{_of_exposed(summary)}\n", style="bold")
    text.append(f"{_BELOW_RATE}{_bounds(summary.success)}\n" if summary.success.n else "", style="not bold")
    first = filter(None, (_share(summary.first_attempt), _interval(summary.first_attempt)))
    text.append(f"first attempt  {', '.join(first)}\n", style="not bold")
    return text.append(f"the interval describes {summary.success.population}", style="not bold dim")


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


def usage_lines(usage: ModelUsage) -> Iterator[str]:
    """None of what no reply has told."""
    if usage.with_usage:
        without = usage.replies - usage.with_usage
        of_them = f" ({without} of {usage.replies} replies without counts)" if without else ""
        tokens = f"{_count(usage.tokens_in)} in, {_count(usage.tokens_out)} out"
        yield f"model tokens: {tokens}{of_them}{_cost(usage)}"
    first = usage.first_token_ms
    if first.p50 is not None:
        # with fewer the 95th percentile is just the largest
        p95 = f"{first.p95:.1f}" if first.p95 is not None and first.n >= 20 else "-"
        yield f"first token: p50 {first.p50:.1f}, p95 {p95} ms, n = {first.n}"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def _cost(usage: ModelUsage) -> str:
    cost = "" if usage.cost_usd is None else f"   cost: {usage.cost_usd:.4g} USD"
    unpriced = f"   no price: {one_line(', '.join(usage.unpriced))}" if usage.unpriced else ""
    return cost + unpriced


# with a sentence of two lines each, the heading and the last line there are ten
_MOST_GROUPS = 4
_MOST_EVENTS = 4
_STYLES: dict[Severity, str] = {"harmful": "bold red", "risky": "yellow", "wasteful": "", "note": "dim"}


def findings_table(findings: Sequence[Finding], run_id: str) -> RenderableType:
    """The gravest kinds with how many there are of each, and one of them with the events that show it."""
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity), []).append(finding)
    shown = list(groups.values())[:_MOST_GROUPS]
    table = new_table("findings", "n", "for example, with the events that show it", text_columns=(0, 2))
    table.columns[2].no_wrap = False
    for group in shown:
        first = group[0]
        sentence = f"{one_line(first.text)} [{_some(first.evidence)}]"
        table.add_row(Text(first.severity, style=_STYLES[first.severity]), str(len(group)), Text(sentence))
    left = len(findings) - sum(map(len, shown))
    others = f"{left} more of other kinds" if left else "all of them"
    return Group(table, Text(f"{others}: wirefault runs verify {run_id} --json; an event: --event ID", "dim"))


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _MOST_EVENTS
    return ", ".join(ids[:_MOST_EVENTS]) + (f" and {more} more" if more > 0 else "")
