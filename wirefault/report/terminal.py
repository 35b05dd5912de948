"""A console as wide as its lines need; in a separate module because its content is slow to import."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from wirefault.history.logs import strip_control
from wirefault.report.plain_table import PIPED_WIDTH

_WIDEST = 140


class _CleanConsole(Console):
    """Removes control characters from all text, whichever field of a history it came from."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(strip_control(segment.text), segment.style)


def plain_console(stderr: bool = False) -> Console:
    """Return a console as wide as the terminal; without a terminal, as wide as the lines."""
    console = _CleanConsole(stderr=stderr, highlight=False)
    return (
        console if console.is_terminal else _CleanConsole(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    )


def line_width(console: Console) -> int:
    return min(console.width, _WIDEST)
