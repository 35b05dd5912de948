"""Finds links and hosts that a run's files name and that the subject never called. Pure.

Where links are found at run time, a file may name one before it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wirefault.core.sockets import Address
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.gateway.intercept.policy import matches_host
from wirefault.history.events import ConnectionEnded, Event, Exchange, NeverCalled, WentPastLab
from wirefault.judging.oracle.expect import parse_expect
from wirefault.wiring.links import Links, server_in
from wirefault.wiring.prompts import Prompt
from wirefault.wiring.wiring import InterceptSpec


@dataclass(frozen=True)
class NamingFiles:
    """The parts of a run's files that can name a link before it is found."""

    fault_sets: Sequence[FaultSet]
    prompts: Sequence[Prompt]
    intercept: InterceptSpec
    draws_for_used: bool = False
    """Whether the links in the prompts' ``tool_links`` decide about toxics."""


def never_called(files: NamingFiles, links: Links, events: Iterable[Event]) -> list[NeverCalled]:
    """Return the names without a call, in the files' order. ``links``: all of the run, found ones too."""
    called = _Called(events)
    names: dict[tuple[str, str], NeverCalled] = {}
    for by, name in (*_names_of_links(files, links), *_hosts(files.intercept, called)):
        names.setdefault((by, name), NeverCalled(by, name, called.names))
    return list(names.values())


class _Called:
    """The subject's servers, by link and by host."""

    def __init__(self, events: Iterable[Event]) -> None:
        links: dict[str, None] = {}
        past: dict[str, None] = {}
        self.hosts: set[tuple[str, int]] = set()
        for event in events:
            if isinstance(event, (ConnectionEnded, WentPastLab)):
                self.hosts.add((event.host, event.port))
                if not event.link:
                    past[str(Address(event.host, event.port))] = None
            if isinstance(event, (ConnectionEnded, Exchange)) and event.link:
                links[event.link] = None
        self.names = [*links, *past]


def _names_of_links(files: NamingFiles, links: Links) -> Iterator[tuple[str, str]]:
    for fault_set in files.fault_sets:
        faults, toxics = fault_set.awaited_names(links)
        yield from (("faults", name) for name in faults)
        yield from (("toxics", name) for name in toxics)
    for prompt in files.prompts:
        requests = parse_expect(prompt.expect).requests if prompt.expect else None
        yield from (("expect", each.link) for each in requests or () if each.link not in links)
        if files.draws_for_used:
            yield from (("tool_links", name) for name in prompt.tool_links or () if name not in links)


def _hosts(intercept: InterceptSpec, called: _Called) -> Iterator[tuple[str, str]]:
    """Hosts of ``only``; of ``pass`` and ``refuse`` those that seem misspelt, since most are a precaution."""
    for by, patterns in (("only", intercept.only), ("pass", intercept.pass_), ("refuse", intercept.refuse)):
        for pattern in patterns:
            if pattern in called.names:
                continue
            if any(matches_host([pattern], host, port) for host, port in called.hosts):
                continue
            named = NeverCalled(by, pattern, called.names)
            if by == "only" or server_in(pattern) is None or named.meant:
                yield by, pattern
