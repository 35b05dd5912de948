"""What ``wirefault exec`` shows: the servers that a command called, what struck it, what it did about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from wirefault.judging.calls import LinkCalls
from wirefault.report.tables import new_table, one_line

NOTHING_MET = "nothing was met: no fault reached the command, so this says nothing about what it does then"


def calls_table(rows: Sequence[LinkCalls], missed: Iterable[str], *, nothing_met: bool) -> RenderableType:
    """``missed``: what was not intercepted, in sentences. ``nothing_met``: none of the faults was met."""
    warning = [Text(one_line(sentence), style="yellow") for sentence in missed]
    warning += [Text(NOTHING_MET, style="bold yellow")] if nothing_met else []
    if not rows:
        return Group(Text("it called no server that the lab could see", style="bold"), *warning)
    table = new_table("link", "server", "requests", "what struck it, and what it did", text_columns=(0, 1, 3))
    table.columns[3].no_wrap = False
    for row in rows:
        server = one_line(row.server) + (" (MCP)" if row.of_mcp else "")
        table.add_row(Text(row.link), Text(server), str(row.requests), Text(_story(row)))
    return Group(table, *warning)


def _story(row: LinkCalls) -> str:
    parts = [_counts(row.struck)] if row.struck else []
    parts += [f"toxics: {_counts(row.toxics)}"] if row.toxics else []
    if row.failed:
        again = f"{row.again} of {row.failed} failed requests were sent again"
        parts.append(f"{again}, {row.recovered} got through" if row.again else f"{again}")
    return "; ".join(parts) or "-"


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{kind} x{count}" if count > 1 else kind for kind, count in kinds.items())
