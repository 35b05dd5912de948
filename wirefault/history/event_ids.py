"""The id of an event: the file and the line at which a reader finds it, ``gateway-0:17``. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from wirefault.history.events import (
    BudgetSpent,
    BudgetUnknown,
    BudgetWarned,
    ConnectionEnded,
    Event,
    Exchange,
    FaultsSet,
    LinkOpened,
    RunStarted,
    ToxicsChanged,
)


def with_ids(events: Iterable[Event]) -> Iterator[tuple[str, Event]]:
    """Each event of a run of one lane with its id.

    Those of one file must be in the order written and without a gap; files may come in any order.
    """
    events = list(events)
    lane = next((event.lane for event in events if isinstance(event, RunStarted)), 0)
    lines = Counter[str]()
    for event in events:
        writer = _writer_of(event)
        lines[writer] += 1
        yield f"{writer}-{lane}:{lines[writer]}", event


def _writer_of(event: Event) -> str:
    """The process that writes such events, each of which has a file of its own."""
    if isinstance(event, BudgetWarned | BudgetSpent | BudgetUnknown):
        return "agent" if event.of_subject else "gateway"
    if isinstance(event, Exchange | FaultsSet):
        return "gateway"
    if isinstance(event, ConnectionEnded):
        return "ingress"
    return "manager" if isinstance(event, LinkOpened | ToxicsChanged) else "agent"
