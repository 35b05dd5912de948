"""Which links an entry of a fault set names. Pure."""

from __future__ import annotations

from typing import Any

from wirefault.core.spelling import nearest
from wirefault.faults.sets.checks import FaultSetError
from wirefault.wiring.links import FOUND_WRITES, Links


def named_links(given: Any, where: str, links: Links | None) -> tuple[tuple[str, ...], bool]:
    """The links meant, in the wiring's order, and whether a group of several is among the names."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names:
        raise FaultSetError(f"{where}: must be a link, a list of links, tools, writes, model or all")
    if links is None:
        return tuple(map(str, names)), False
    chosen: set[str] = set()
    for name in names:
        group = links.groups.get(name) if isinstance(name, str) else None
        to_be_found = links.grows and name in links.found_by_group
        if group is None and name not in links and not to_be_found:
            raise FaultSetError(
                f"{where}: no link is called {name!r}{nearest(str(name), (*links.names, *links.groups))}"
            )
        chosen.update((name,) if group is None else group)
    return tuple(name for name in (*links.eligible_names, FOUND_WRITES) if name in chosen), bool(
        {"tools", "writes", "all"} & set(names)
    )
