"""The processes that this one has started, and those that they have: which, and what memory they hold.

Linux tells of it in ``/proc``; elsewhere there are none to be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress


def children(pid: int) -> Iterator[int]:
    """Those of all its threads."""
    # pathlib would take most of the time of a look
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                yield from map(int, file.read().split())


def descendants(pid: int) -> Iterator[int]:
    """Its children, and theirs."""
    for child in list(children(pid)):
        yield child
        yield from descendants(child)


def resident_bytes(pids: Iterable[int]) -> int:
    """Their resident memory together; what they share counts for each of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
