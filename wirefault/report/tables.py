"""Tables of the console."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from wirefault.history.logs import strip_control


def new_table(*columns: str, text_columns: Iterable[int] = (0,)) -> Table:
    """Return a table without lines; ``text_columns`` are aligned left, figures right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in text_columns else "right", no_wrap=True)
    return table


def one_line(text: str) -> str:
    """Remove line breaks and control characters."""
    return " ".join(strip_control(text).split())
