"""The tables of faults in the summary, and what all its tables share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from windtunnel.history.logs import strip_control
from windtunnel.judging.ledger import EntryLedger
from windtunnel.judging.summary import FaultCount, Summary


def new_table(*columns: str, text_columns: Iterable[int] = (0,)) -> Table:
    """Without lines; ``text_columns`` are set to the left, figures to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in text_columns else "right", no_wrap=True)
    return table


def one_line(text: str) -> str:
    """Without line breaks and control characters."""
    return " ".join(strip_control(text).split())


def fault_tables(summary: Summary) -> Iterator[Table]:
    """Toxics and errors by kind, and each entry of the fault sets; each only if there is one."""
    if others := _of_no_entry(summary):
        yield _faults(others)
    if summary.entries:
        yield _entries(summary)


def _faults(faults: Iterable[FaultCount]) -> Table:
    table = new_table("fault", "drawn", "met", "injected", "delivered")
    for one in faults:
        counts = (one.drawn, one.met, one.injected, one.delivered)
        drawn_by = " (ERROR_PROB)" if one.source == "error" else ""
        table.add_row(Text(one_line(one.kind) + drawn_by), *map(str, counts))
    return table


def _of_no_entry(summary: Summary) -> list[FaultCount]:
    """What the table of entries does not tell better."""
    told = {entry.fault for entry in summary.entries}
    return [one for one in summary.faults if one.source != "fault" or one.kind not in told]


def _entries(summary: Summary) -> Table:
    """``tries``: those at which an entry was aimed; the last column: why some were not injected, canaries."""
    head = ("entry of the fault set", "tries", "struck", "injected", "delivered", "")
    table = new_table(*head, text_columns=(0, 5))
    table.columns[0].no_wrap = table.columns[5].no_wrap = False
    names = Counter(one.id for one in summary.entries)
    delivered = Counter(f.id for episode in summary.episodes for f in episode.faults if f.delivered)
    for one in summary.entries:
        name = one.name if one.id.startswith(one.fault) else f"{one.name}: {one.fault}"
        # a record of a fault names its entry, but no configuration
        seen = str(delivered[one.id]) if names[one.id] == 1 else "?" if one.injected else "0"
        counts = (str(one.met), str(one.struck), str(one.injected), seen)
        table.add_row(Text(one_line(name)), *counts, Text(one_line("; ".join(_fate(one)))))
    return table


def _fate(one: EntryLedger) -> Iterator[str]:
    yield from (f"{why} x{count}" for why, count in one.why_not.items())
    if one.canary:
        yield f"canary {one.canary}" + (f": {one.because}" if one.because else "")
