"""The tables of faults in the summary, and what all its tables share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from wirefault.history.logs import strip_control
from wirefault.judging.account import FaultAccount
from wirefault.judging.evidence.record import DeliveredBy, FaultStage
from wirefault.judging.summary import Summary


def new_table(*columns: str, text_columns: Iterable[int] = (0,)) -> Table:
    """Without lines; ``text_columns`` are set to the left, figures to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in text_columns else "right", no_wrap=True)
    return table


def one_line(text: str) -> str:
    """Without line breaks and control characters."""
    return " ".join(strip_control(text).split())


# A toxic is armed whenever it was drawn, and known to be injected only by what was observed. A fault of the
# gateway is armed in every eligible request, and drawn when it is met.
_TOXIC_STAGES: Sequence[FaultStage] = ("eligible", "drawn", "met", "observed")
_GATEWAY_STAGES: Sequence[FaultStage] = ("eligible", "met", "injected", "observed")


def fault_tables(summary: Summary) -> Iterator[Table]:
    """Toxics, then faults of the gateway, a row each; a table only if it has one."""
    toxics = [row for row in summary.faults if row.source == "toxic"]
    others = [row for row in summary.faults if row.source != "toxic"]
    if toxics:
        yield _account("toxic", toxics, _TOXIC_STAGES)
    if others:
        yield _account("fault", others, _GATEWAY_STAGES)


def _account(title: str, rows: Sequence[FaultAccount], stages: Sequence[FaultStage]) -> Table:
    """``delivered`` stands there only where it differs from ``observed``; last comes whose record says so, if
    it is not the caller's, and why some were not."""
    counts = [*stages, *(["delivered"] if any(row.delivered != row.observed for row in rows) else [])]
    table = new_table(title, *counts, "", text_columns=(0, len(counts) + 1))
    table.columns[0].no_wrap = table.columns[-1].no_wrap = False
    for row in rows:
        name = row.name if not row.entry or row.entry.startswith(row.kind) else f"{row.name}: {row.kind}"
        figures = ("unknown" if getattr(row, count) is None else str(getattr(row, count)) for count in counts)
        table.add_row(Text(one_line(name)), *figures, Text(one_line("; ".join(_reasons(row)))))
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
    yield from (f"{why} x{count}" for why, count in row.why_not.items())
    if row.always_on:
        yield f"always on: {row.always_on}"
    if row.because:
        yield row.because
