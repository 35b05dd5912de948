"""What links that were found while a run went on add to the records of what it began with: themselves, their
toxics, and what was spoken there. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from wirefault.dialects.mcp import MCP
from wirefault.history.events import AttemptArmed, Event, Exchange, LinkOpened, RunStarted


def with_found_links(events: Iterable[Event]) -> list[Event]:
    """The same events in the same order, the run's links and the attempts' toxics completed.

    Done twice it changes nothing more.
    """
    events = list(events)
    opened = [event for event in events if isinstance(event, LinkOpened)]
    spoke_mcp = {event.link for event in events if isinstance(event, Exchange) and _is_of_mcp(event)}
    if not (opened or spoke_mcp):
        return events
    by_attempt: defaultdict[tuple[str, int], list[LinkOpened]] = defaultdict(list)
    for event in opened:
        by_attempt[event.episode, event.attempt].append(event)

    def completed(event: Event) -> Event:
        if isinstance(event, RunStarted):
            known = {link["name"] for link in event.links}
            found = [one.link for one in opened if one.link["name"] not in known]
            return replace(event, links=[_as_spoken(link, spoke_mcp) for link in (*event.links, *found)])
        if isinstance(event, AttemptArmed):
            of_attempt = by_attempt[event.episode, event.attempt]
            found_toxics = [toxic for one in of_attempt for toxic in one.toxics]
            new = [toxic for toxic in found_toxics if toxic not in event.toxics]
            return replace(event, toxics=[*event.toxics, *new])
        return event

    return [completed(event) for event in events]


def tells_of_found_link(event: Event) -> bool:
    """Whether the event can change what others say of a link that was found."""
    return isinstance(event, LinkOpened) or (isinstance(event, Exchange) and _is_of_mcp(event))


def _is_of_mcp(event: Exchange) -> bool:
    return event.dialect == MCP.name


def _as_spoken(link: dict[str, Any], spoke_mcp: Collection[str]) -> dict[str, Any]:
    """The link as JSON; one that was found is of MCP if a request on it was, which is not known at first."""
    return {**link, "dialect": MCP.name} if link.get("found") and link["name"] in spoke_mcp else link
