"""Plain-text tables for fast commands: rich alone takes longer to import and to draw."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

PIPED_WIDTH = 110
_GAP = 2


def width_of(stream: TextIO) -> int:
    """Return the terminal's width; without a terminal, the width of the longest line."""
    return shutil.get_terminal_size().columns if stream.isatty() else PIPED_WIDTH


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """Return the table in lines of at most ``width`` columns, its head first; the widest columns wrap."""
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    while sum(widths) + _GAP * (len(widths) - 1) > max(width, 20 * len(widths)):
        widths[widths.index(max(widths))] -= 1
    for row in table:
        cells = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = (
                (lines[number] if number < len(lines) else "").ljust(size)
                for lines, size in zip(cells, widths, strict=True)
            )
            yield (" " * _GAP).join(parts).rstrip()


def _wrapped(cell: str, size: int) -> list[str]:
    """Return the cell's lines, without control characters."""
    printable = "".join(character if character.isprintable() else " " for character in cell)
    return textwrap.wrap(printable, size) or [""]
