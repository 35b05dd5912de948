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

_STAGES = ("eligible", "drawn", "armed", "met", "injected", "observed", "delivered")
_MAX_SETTING = 60
MAX_LINKS, UNBOUNDED = 3, 1_000
"""Links that a sentence names."""
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


def points_row(label: str, rise: Difference, path: Sequence[str | int], more: str = "") -> IntervalRow:
    """Return the row of a difference of success rates, in percentage points. ``path``: its place in JSON."""
    low, high, value = (100 * share for share in (rise.low, rise.high, rise.value))
    note = Phrase(
        Figure(f"{value:+.3g} points", *path, "value"),
        " [",
        Figure(f"{low:+.3g}", *path, "low"),
        ", ",
        Figure(f"{high:+.3g}", *path, "high"),
        "], n = ",
        Figure(rise.n, *path, "n"),
        more,
    )
    return IntervalRow(label, low, high, value, note, "worse" if high < 0 else "")


def latency_chart(links: Sequence[Mapping[str, Any]]) -> Iterator[Chart]:
    """Draw the duration of requests by link, with and without an injected fault."""
    rows = []
    for place, row in enumerate(links):
        at = ("figures", "links", place)
        low, middle, high = (max(row["ms"][name], _MIN_MS) for name in ("min", "median", "max"))
        name = f"{row['link']}, {'with a fault' if row['faulted'] else 'without faults'}"
        median = Figure(_ms(row["ms"]["median"]), *at, "ms", "median")
        note = Phrase("median ", median, ", n = ", Figure(row["requests"], *at, "requests"))
        rows.append(IntervalRow(name, low, high, middle, note, "fault" if row["faulted"] else ""))
    if rows:
        says = (
            "Each line goes from the shortest to the longest request, the dot is the median; the axis is in"
            " powers of ten. Failed requests are included."
        )
        title = "Duration of requests by link"
        yield Chart(title, says, intervals(rows, title, "ms", logarithm=True))


def request_table(links: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """One row for each link, with and without an injected fault: failures, tokens, and who sent again."""
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
                Figure(
                    "unknown" if (count := getattr(row, stage)) is None else count,
                    *("figures", "arms", place, "faults", number, stage),
                )
                for stage in _STAGES
            ),
        ]
        for place, arm in enumerate(arms)
        for number, row in enumerate(accounts.get(arm["arm"], ()))
    ]
    if rows:
        yield Table("Faults", (*(["arm"] if named else []), "entry", "kind", "links", *_STAGES), rows)


def provenance(name: str, evidence: Evidence, summary: Summary) -> list[tuple[str, str]]:
    changed = {name: value for name, value in summary.settings.items() if _is_changed(name, value)}
    settings = ", ".join(f"{name} {value}" for name, value in changed.items()) or "the defaults"
    return [
        ("id", name),
        ("evidence", evidence.text),
        ("wirefault", __version__),
        ("python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
        ("run", summary.run_id),
        ("lab", summary.lab_id),
        ("settings that differ from the defaults", settings),
    ]


def _is_changed(name: str, value: object) -> bool:
    """Whether a setting differs from its default and fits on a line."""
    declared = Settings.model_fields.get(name)
    default = declared.get_default(call_default_factory=True) if declared else None
    return value != default and str(value) != str(default) and len(str(value)) <= _MAX_SETTING
