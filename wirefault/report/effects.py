"""What each fault did to the success rate, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from wirefault.experiments.effects import FaultEffect
from wirefault.report.comparison import shown_difference
from wirefault.report.tables import new_table


def print_effects(console: Console, effects: Sequence[FaultEffect]) -> None:
    """A row for each fault of each arm; nothing if there are none."""
    if not effects:
        return
    columns = ("arm", "fault", "planned", "drawn", "alone", "control", "struck", "success, struck - control")
    table = new_table(*columns, text_columns=(0, 1, 7))
    table.columns[1].no_wrap = table.columns[7].no_wrap = False
    for effect in effects:
        figures = (effect.planned, effect.drawn, effect.alone, effect.control, effect.struck)
        success = "unknown" if effect.success is None else shown_difference(effect.success)
        left_out = f", {effect.open} without an outcome" if effect.open else ""
        table.add_row(Text(effect.arm), Text(effect.fault), *map(str, figures), Text(success + left_out))
    console.print()
    console.print(table)
    console.print(
        Text(
            "the episodes for which a fault was planned, as the control's shadows show it; where they are not"
            " alone, other faults have a part in it",
            style="dim",
        )
    )
