"""Tables of the console."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

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


def table_texts(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table as texts."""
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    return [_plain(column.header) for column in table.columns], [
        list(row) for row in zip(*columns, strict=True)
    ]


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
