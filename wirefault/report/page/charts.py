"""The charts and tables that pages share; each figure has its place in ``--json``."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wirefault._version import __version__
from wirefault.experiments.evidence import Evidence
from wirefault.judging.account import FaultAccount
from wirefault.judging.layers import LAYERS
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.summary import Summary
from wirefault.report.page.parts import Chart, Table, count_text
from wirefault.report.page.phrase import Figure, Phrase, joined
from wirefault.report.page.svg import IntervalRow, Share, StackedRow, intervals, stacked_bars
from wirefault.settings.settings import Settings
from wirefault.stats.rates import Difference

_NO_RECORD = (
    "not recorded by the agent: it keeps no record of its calls, so what the lab injected counts as delivered"
)
_STAGES = ("eligible", "drawn", "armed", "met", "injected", "observed", "delivered")
_MAX_SETTING = 60
MAX_LINKS, UNBOUNDED = 3, 1_000
"""Links that a sentence names."""
MIN_FOR_MEDIAN = 3
"""Requests from which on their median is drawn."""
_MIN_MS = 0.1
"""Shorter durations are drawn as this long."""


def faults_text(rows: Iterable[FaultAccount], most: int = UNBOUNDED) -> str:
    """Name the faults and their links, each once; at most ``most`` links."""
    by_links: dict[str, dict[str, None]] = {}
    for row in rows:
        more = " and other links" if len(row.links) > most else ""
        links = ", ".join(row.links[:most]) + more
        by_links.setdefault(links or "no link", {})[row.name] = None
    return "; ".join(f"{', '.join(names)} on {links}" for links, names in by_links.items()) or "no faults"


def reached_text(arms: Sequence[Mapping[str, Any]], planned: Iterable[FaultAccount]) -> str:
    """Name the links that faults reached, with counts. ``planned``: what could have, if none did."""
    parts: list[str] = []
    for place, arm in enumerate(arms):
        at = ("figures", "arms", place)
        if not arm["reached"]:
            continue
        rows: list[str] = [
            Phrase(
                f"{row['fault']} on {row['link']} (",
                Figure(row["count"], *at, "reached", number, "count"),
                ")",
            )
            for number, row in enumerate(arm["reached"])
        ]
        count = sum(row["count"] for row in arm["reached"])
        total: list[str] = [Figure(count_text(count, "fault"), *at, "faults_reached"), " in "]
        total += [Figure(count_text(arm["requests"], "request"), *at, "requests")]
        for name, chance in arm["chances"].items():
            total += [f", {name} ", Figure(f"{chance:g}", *at, "chances", name)]
        name = [Figure(arm["arm"], *at, "arm"), ": "] if arm["arm"] and len(arms) > 1 else []
        parts.append(Phrase(*name, *total, ": ", joined(", ", rows)))
    if parts:
        return joined("; ", parts)
    text = faults_text(planned, MAX_LINKS)
    return text if text == "no faults" else f"{text}; none is known to have reached a request"


def outcome_chart(arms: Sequence[Mapping[str, Any]]) -> Iterator[Chart]:
    """``arms``: their figures, in the order of ``--json``."""
    rows = []
    for place, arm in enumerate(arms):
        at = ("figures", "arms", place)
        outcomes = arm["outcomes"]
        shares = [
            Share(name, outcomes[name], Figure(outcomes[name], *at, "outcomes", name))
            for name in OUTCOMES
            if outcomes.get(name)
        ]
        count = Figure(count_text(arm["episodes"], "episode"), *at, "episodes")
        rows.append(StackedRow(Phrase(f"{arm['arm']}, ", count) if arm["arm"] else count, shares))
    if any(row.shares for row in rows):
        says = "How the episodes ended, from best to worst."
        yield Chart("Outcomes", says, stacked_bars(rows, "Outcomes", "episodes"))


def signed(value: float) -> str:
    """Return a difference with its sign; 0 has none."""
    return f"{value:+.3g}" if value else "0"


def points_row(label: str, rise: Difference, path: Sequence[str | int], more: str = "") -> IntervalRow:
    """Return the row of a difference of success rates, in percentage points. ``path``: its place in JSON."""
    low, high, value = (100 * share for share in (rise.low, rise.high, rise.value))
    note = Phrase(
        Figure(f"{signed(value)} points", *path, "value"),
        " [",
        Figure(signed(low), *path, "low"),
        ", ",
        Figure(signed(high), *path, "high"),
        "], n = ",
        Figure(rise.n, *path, "n"),
        more,
    )
    return IntervalRow(label, low, high, value, note, "worse" if high < 0 else "")


def latency_chart(links: Sequence[Mapping[str, Any]]) -> Iterator[Chart]:
    """Draw the duration of requests by link, with and without a fault."""
    rows = []
    for place, row in enumerate(links):
        at = ("figures", "links", place)
        low, middle, high = (max(row["ms"][name], _MIN_MS) for name in ("min", "median", "max"))
        name = f"{row['link']}, {'with a fault' if row['faulted'] else 'without faults'}"
        n = Figure(row["requests"], *at, "requests")
        median = Figure(_ms(row["ms"]["median"]), *at, "ms", "median")
        has_median = row["requests"] >= MIN_FOR_MEDIAN
        note = (
            Phrase("median ", median, ", n = ", n) if has_median else Phrase("too few for a median, n = ", n)
        )
        value = middle if has_median else None
        rows.append(IntervalRow(name, low, high, value, note, "fault" if row["faulted"] else ""))
    if rows:
        says = (
            "Each line goes from the shortest to the longest request, the dot is the median, drawn from"
            f" {MIN_FOR_MEDIAN} requests on; the axis is in powers of ten. Failed requests are included."
        )
        title = "Duration of requests by link"
        yield Chart(title, says, intervals(rows, title, "ms", logarithm=True))


def request_table(links: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """One row for each link, with and without a fault: failures, tokens, and who sent again."""
    rows = []
    for place, row in enumerate(links):
        at = ("figures", "links", place)
        again = [
            Phrase(f"{layer} ", Figure(row["again"][layer], *at, "again", layer))
            for layer in LAYERS
            if layer in row["again"]
        ]
        rows.append(
            [
                row["link"],
                "with a fault" if row["faulted"] else "without faults",
                Figure(row["requests"], *at, "requests"),
                Figure(row["failed"], *at, "failed"),
                Figure("–" if row["tokens"] is None else row["tokens"], *at, "tokens"),
                joined(", ", list(again)) if again else "–",
            ]
        )
    if rows:
        columns = ("link", "", "requests", "failed", "model tokens", "sent again by")
        note = (
            "sent again by: the layer that repeated an equal request; the SDK marks its retries,"
            " the code repeats with no model reply in between"
        )
        yield Table("Requests by link", columns, rows, note)


def _ms(value: float) -> str:
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.3g} ms"


def fault_tables(
    arms: Sequence[Mapping[str, Any]], accounts: Mapping[str, Sequence[FaultAccount]]
) -> Iterator[Table]:
    """One row for each fault entry of each arm: how many reached each stage. ``accounts``: by arm."""
    named = any(accounts)
    rows = [
        [
            *([arm["arm"]] if named else []),
            *(row.name, row.kind, ", ".join(row.links)),
            *(
                Figure(_stage_text(row, stage), "figures", "arms", place, "faults", number, stage)
                for stage in _STAGES
            ),
        ]
        for place, arm in enumerate(arms)
        for number, row in enumerate(accounts.get(arm["arm"], ()))
    ]
    if rows:
        columns = (*(["arm"] if named else []), "entry", "kind", "links", *_STAGES)
        texts = [_stage_text(row, "observed") for each in accounts.values() for row in each]
        is_silent = any("not recorded" in text for text in texts)
        yield Table("Faults", columns, rows, _NO_RECORD if is_silent else "")


def _stage_text(row: FaultAccount, stage: str) -> str:
    count = getattr(row, stage)
    if count is None:
        return "unknown"
    if stage == "observed" and ("no_record" in row.why_not or "injection" in row.delivered_by):
        return f"{count}, others not recorded by the agent" if count else "not recorded by the agent"
    return str(count)


_KILL_FIGURES: Mapping[str, str] = {
    "n": "kills",
    "lost": "replies lost",
    "repeated": "calls repeated",
    "repeated_writes": "executed writes repeated",
    "recovered": "recovered",
    "seconds": "seconds to recover",
    "tokens": "tokens to recover",
}


def kill_table(arms: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """One row for each point at which an arm's subject was killed; no table without a kill."""
    rows = [
        [
            *(arm["arm"] or "run", point["link"], point["point"]),
            *(
                "–"
                if point[key] is None
                else Figure(point[key], "figures", "arms", place, "kills", number, key)
                for key in _KILL_FIGURES
            ),
        ]
        for place, arm in enumerate(arms)
        for number, point in enumerate(arm["kills"])
    ]
    if rows:
        note = "Seconds and tokens are medians, from the kill to the success of the interrupted work."
        columns = ("arm", "link", "point", *_KILL_FIGURES.values())
        yield Table("Kills of the subject", columns, rows, note)


def provenance(name: str, evidence: Evidence, summaries: Mapping[str, Summary]) -> list[tuple[str, str]]:
    """Name what made the recording. ``summaries``: by arm; settings that not all of them have are by arm."""
    summary = next(iter(summaries.values()))
    changed = {
        arm: [_setting_text(name, value) for name, value in each.settings.items() if _is_changed(name, value)]
        for arm, each in summaries.items()
    }
    common = [
        text for text in next(iter(changed.values())) if all(text in texts for texts in changed.values())
    ]
    own = {arm: [text for text in texts if text not in common] for arm, texts in changed.items()}
    arms = [
        (f"also, in the arm {arm}", ", ".join(own[arm]) or "nothing")
        for arm in summaries
        if any(own.values())
    ]
    return [
        ("id", name),
        ("evidence", evidence.text),
        ("wirefault", __version__),
        ("python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
        ("run", summary.run_id),
        ("lab", summary.lab_id),
        ("settings that differ from the defaults", ", ".join(common) or "none"),
        *arms,
    ]


def _setting_text(name: str, value: object) -> str:
    more = " (replies with a fault are recorded all the same)" if name == "bodies" and value == "off" else ""
    return f"{name} {value}{more}"


def _is_changed(name: str, value: object) -> bool:
    """Whether a setting differs from its default and fits on a line."""
    declared = Settings.model_fields.get(name)
    default = declared.get_default(call_default_factory=True) if declared else None
    return value != default and str(value) != str(default) and len(str(value)) <= _MAX_SETTING
