"""The summary of a run for people: outcomes, success, faults, latency, findings, remarks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wirefault.core.lab_folder import logs_folder
from wirefault.history.judged_events import DeliveredBy, FaultStage, Finding, Severity
from wirefault.history.logs import strip_control
from wirefault.judging.account import FaultAccount
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.rates import Rate
from wirefault.judging.summary import Summary, counted, recoveries_text
from wirefault.judging.usage import ModelUsage
from wirefault.report.console import STYLES
from wirefault.report.fixes import HELPS, WORDS, snippet_for
from wirefault.report.next_command import command_on_run
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

_BELOW_RATE = " " * 15


def headline(summary: Summary, *, verbose: bool = True) -> Text:
    """Return the success rate, also under faults and of first attempts, and the interval's population.

    ``verbose``: also the interval of one episode, which rules out nothing.
    """
    text = Text(f"success        {_share(summary.success)}{_of_exposed(summary)}", style="bold")
    if summary.success.planned == 1 and not verbose:
        return text
    text.append(
        f"\n{_BELOW_RATE}{_bounds(summary.success)}\n" if summary.success.n else "\n", style="not bold"
    )
    first = filter(None, (_share(summary.first_attempt), _interval(summary.first_attempt)))
    text.append(f"first attempt  {', '.join(first)}\n", style="not bold")
    return text.append(f"the interval describes {summary.success.population}", style="not bold dim")


def _share(rate: Rate) -> str:
    if rate.rate is None:
        return f"no data: none of {rate.planned} could be judged"
    return f"{_percent(rate.rate)} ({rate.k} of {rate.n}{'' if rate.n == rate.planned else ' judged'})"


def _of_exposed(summary: Summary) -> str:
    """Return the successes among prompts with a delivered fault, without an interval."""
    exposed = summary.exposed
    if not summary.success.n:
        return ""
    if not exposed.n:
        is_unknown = any(fault.met is None for fault in summary.faults)
        return "; none is known to have met a fault" if is_unknown else "; none met a fault"
    text = f"; of the {exposed.n} that met a fault {exposed.k}"
    touched = summary.touched
    if touched.n == exposed.n:
        return text
    if not touched.n:
        return f"{text}, and none where it touched what is asked for"
    return f"{text}, of the {touched.n} where it touched what is asked for {touched.k}"


def _interval(rate: Rate) -> str:
    if rate.low is None or rate.high is None:
        return ""
    return f"95 % interval {_percent(rate.low)} to {_percent(rate.high)}"


def _bounds(rate: Rate) -> str:
    """Return the interval, and the bounds implied by prompts without a verdict."""
    if rate.n == rate.planned or rate.worst is None or rate.best is None:
        return _interval(rate)
    bounds = f"between {_percent(rate.worst)} and {_percent(rate.best)}"
    return f"{_interval(rate)}; of all {rate.planned} planned: {bounds}"


def _percent(share: float) -> str:
    return percent(share, decimals=0)


def usage_lines(usage: ModelUsage) -> Iterator[str]:
    """Yield tokens, cost and time to first token, as far as replies reported them."""
    if usage.with_usage:
        without = usage.replies - usage.with_usage
        of_them = f" ({without} of {usage.replies} replies without counts)" if without else ""
        tokens = f"{_count(usage.tokens_in)} in, {_count(usage.tokens_out)} out"
        yield f"model tokens: {tokens}{of_them}{_cost(usage)}"
    first = usage.first_token_ms
    if first.p50 is not None:
        # with too few values for p95, show the largest
        p95 = f"{first.p95:.1f}" if first.p95 is not None and first.n >= 20 else "-"
        yield f"first token: p50 {first.p50:.1f}, p95 {p95} ms, n = {first.n}"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def _cost(usage: ModelUsage) -> str:
    cost = "" if usage.cost_usd is None else f"   cost: {usage.cost_usd:.4g} USD"
    unpriced = f"   no price: {one_line(', '.join(usage.unpriced))}" if usage.unpriced else ""
    return cost + unpriced


_MAX_GROUPS = 4
_MAX_EVENTS = 4
_STYLES: dict[Severity, str] = {"harmful": "bold red", "risky": "yellow", "wasteful": "", "note": "dim"}


def findings_block(
    findings: Sequence[Finding], run_id: str, logs: Path | None = None, lab_id: str = "", seen_in: str = ""
) -> RenderableType:
    """Return the worst findings: who did what, how often, what helps, and the evidence of one of them.

    ``logs``: where the run is; None for the usual folder. ``seen_in``: of what they are counted, such as
    ``of 29 episodes``, or one of them; empty for their number alone.
    """
    groups: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.rule, finding.headline), []).append(finding)
    gravest = list(groups.values())[:_MAX_GROUPS]
    lines: list[RenderableType] = []
    helped: set[str] = set()
    for group in gravest:
        first, helps = group[0], HELPS.get(group[0].rule, "")
        events = [event.removeprefix(f"{run_id}/") for event in first.evidence]
        word = Text(f"{WORDS[first.severity]:<5} ", _STYLES[first.severity])
        word.append(one_line(first.headline or first.text), "bold not dim")
        count = len({each.episode for each in group}) if seen_in.startswith("of ") else len(group)
        of_all = f"{count} {seen_in}" if seen_in.startswith("of ") else counted(count, seen_in)
        seen = "" if seen_in == "of 1 episode" else f"  (in {of_all})" if seen_in else f"  ({count})"
        lines.append(word.append(seen, "dim not bold"))
        if helps not in helped:
            helped.add(helps)
            code = [] if not (snippet := snippet_for(first)) else snippet.splitlines()
            below = [Text(f"What usually helps: {helps}"), *(Text(f"  {line}", "bold") for line in code)]
            lines += [Padding(each, (0, 0, 0, 6)) for each in below if helps]
        if first.headline:
            sentence = f"Evidence: {one_line(first.text)} [{_some(events)}]"
            lines.append(Padding(Text(sentence, "dim"), (0, 0, 0, 6)))
    left = len(findings) - sum(map(len, gravest))
    others = f"{left} more of other kinds" if left else "all of them"
    words = ["wirefault", "runs", "verify", run_id]
    verify = command_on_run(words, ["--json"], logs or logs_folder({}), lab_id)
    return Group(*lines, Text(f"{others}: {verify}; an event: --event ID", "dim"))


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _MAX_EVENTS
    return ", ".join(ids[:_MAX_EVENTS]) + (f" and {more} more" if more > 0 else "")


def print_summary(
    console: Console,
    summary: Summary,
    reproduce: str = "",
    omitted: Collection[str] = (),
    logs: Path | None = None,
    seen_in: str = "",
    *,
    verbose: bool = False,
) -> None:
    """Print the summary for people, the findings first, and ``reproduce``, the command that repeats the run.

    ``omitted``: remarks that are shown elsewhere. ``logs``: where the run is; None for the usual folder.
    ``seen_in``: see ``findings_block``. ``verbose``: with the stages of each fault, and how the lab did.
    """
    blocks: list[RenderableType] = [_head(summary)]
    if summary.findings:
        seen_in = seen_in or f"of {counted(len(summary.episodes), 'episode', 'episodes')}"
        blocks.append(findings_block(summary.findings, summary.run_id, logs, summary.lab_id, seen_in))
    blocks.append(_outcomes(summary))
    if summary.oracles or not summary.episodes:
        blocks.append(headline(summary, verbose=verbose))
    if summary.claims.n:
        blocks.append(Text(summary.claims.text, style="bold"))
    blocks += fault_tables(summary) if verbose else _fault_line(summary)
    if summary.latency_ms:
        blocks.append(_latency(summary))
    if summary.invalid_because:
        blocks.append(_invalid(summary))
    remarks = (_remark(text) for text in summary.remarks if text not in omitted)
    blocks.append(Group(_facts(summary, verbose=verbose), *remarks))
    console.print(Group(*(part for block in blocks for part in (Text(), block))))
    if reproduce:  # unbroken for copying
        console.print(Text(strip_control(reproduce)), soft_wrap=True)


def _invalid(summary: Summary) -> Text:
    text = "this run is invalid, the lab failed to inject all faults: "
    return Text(text + one_line("; ".join(summary.invalid_because)), style=STYLES["lab"])


def _head(summary: Summary) -> Text:
    seconds = "-" if summary.duration_s is None else f"{summary.duration_s:.1f} s"
    head = Text(f"run {summary.run_id}", style="bold")
    prompts = counted(len(summary.episodes), "prompt", "prompts")
    head.append(f"   seed {summary.seed}   {prompts}   {seconds}\n", style="not bold")
    return head.append(one_line(summary.subject), style="not bold")


def _outcomes(summary: Summary) -> Table:
    table = new_table("outcome", "n", "meaning", text_columns=(0, 2))
    for row in OUTCOMES.values():  # the best news first
        if row.name in summary.outcomes:
            count = str(summary.outcomes[row.name])
            table.add_row(Text(row.name, style=STYLES[row.tone]), count, Text(row.meaning))
    return table


def _latency(summary: Summary) -> Table:
    table = new_table("latency, ms, of valid replies", "p50", "p95", "p99", "n", "failed")
    for link, latency in summary.latency_ms.items():
        times = ((latency.p50, 1), (latency.p95, 20), (latency.p99, 100))
        # with too few values for a percentile, show the largest
        cells = (_ms(value if latency.n >= minimum else None) for value, minimum in times)
        table.add_row(link, *cells, str(latency.n), str(latency.failed))
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _facts(summary: Summary, *, verbose: bool) -> Text:
    arming = summary.arming_ms
    left = "unknown" if summary.toxics_left is None else str(summary.toxics_left)
    text = Text()
    if verbose:
        text.append(
            f"request to armed: p50 {_ms(arming['p50'])}, p99 {_ms(arming['p99'])} ms, n = {arming['n']}"
        )
    if verbose or summary.toxics_left:
        text.append(f"{'   ' if verbose else ''}toxics left: {left}\n")
    text.append("".join(f"{line}\n" for line in usage_lines(summary.model_usage)))
    if summary.recoveries:
        text.append(f"recoveries that helped: {recoveries_text(summary.recoveries)}\n")
    text.append("".join(f"kills of the subject: {one_line(point.text)}\n" for point in summary.kills))
    because = "; ".join(summary.not_reproducible_because)
    return text.append("reproducible: " + (f"no, because {because}" if because else "yes"))


def _remark(text: str) -> Text:
    return Text(f"note: {one_line(text)}", style="yellow")


# A toxic is armed whenever it is drawn, and known to be injected only if it was observed. A fault of the
# gateway is armed in every eligible request, and drawn when it is met.
_TOXIC_STAGES: Sequence[FaultStage] = ("eligible", "drawn", "met", "observed")


_GATEWAY_STAGES: Sequence[FaultStage] = ("eligible", "met", "injected", "observed")


def _fault_line(summary: Summary) -> Iterator[Text]:
    """Yield how often each fault acted, on one line; ``--verbose`` has all stages."""
    parts = []
    for row in summary.faults:
        acted = row.observed if row.source == "toxic" else row.injected
        if acted or row.met is None:
            parts.append(f"{row.label} {'unknown' if row.met is None else acted}")
    if parts:
        yield Text(one_line(f"faults that acted: {', '.join(parts)}"))


def fault_tables(summary: Summary) -> Iterator[Table]:
    """Return a table of toxics and one of the gateway's faults, a row each; omits empty tables."""
    toxics = [row for row in summary.faults if row.source == "toxic"]
    others = [row for row in summary.faults if row.source != "toxic"]
    if toxics:
        yield _account("toxic", toxics, _TOXIC_STAGES)
    if others:
        yield _account("fault", others, _GATEWAY_STAGES)


def _account(title: str, rows: Sequence[FaultAccount], stages: Sequence[FaultStage]) -> Table:
    """Return a fault's row. ``delivered`` is shown if it differs from ``observed``.

    The last column names the record that shows the delivery, if not the caller's, and why some failed.
    """
    counts = [*stages, *(["delivered"] if any(row.delivered != row.observed for row in rows) else [])]
    table = new_table(title, *counts, "", text_columns=(0, len(counts) + 1))
    table.columns[0].no_wrap = table.columns[-1].no_wrap = False
    for row in rows:
        figures = ("unknown" if getattr(row, count) is None else str(getattr(row, count)) for count in counts)
        table.add_row(Text(one_line(row.label)), *figures, Text(one_line("; ".join(_reasons(row)))))
    return table


_SHOWN_BY: Mapping[DeliveredBy, str] = {
    "upstream": "observed at the upstream",
    "ingress": "observed at the ingress",
    "injection": "delivered as injected",
}


def _reasons(row: FaultAccount) -> Iterator[str]:
    for side, words in _SHOWN_BY.items():
        if count := row.delivered_by.get(side):
            yield words if count == sum(row.delivered_by.values()) else f"{words} x{count}"
    if row.given_up:
        yield f"the client gave up during {row.given_up} of {row.injected}"
    # the sentence below says the same in words
    whys = {why: count for why, count in row.why_not.items() if row.met is not None or why != "no_record"}
    yield from (f"{why} x{count}" for why, count in whys.items())
    if row.met is None:
        yield "unknown: no record of what the agent's connections got"
    if row.always_on:
        yield f"always on: {row.always_on}"
    if row.because:
        yield row.because
