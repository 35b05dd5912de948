"""The console, as wide as the lines need it; apart from what is shown there, which is slow to import."""

from __future__ import annotations

from rich.console import Console

from windtunnel.report.plain_table import PIPED_WIDTH

_WIDEST = 140


def plain_console(stderr: bool = False) -> Console:
    """As wide as the terminal; where there is none, wide enough for the lines."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)


def line_width(console: Console) -> int:
    return min(console.width, _WIDEST)
