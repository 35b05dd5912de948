"""Watches a subject behind the proxy tap for connections that go past the lab."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import getaddrinfo
from typing import Any

from wirefault.core.sockets import Address, is_loopback
from wirefault.gateway.intercept.policy import names
from wirefault.history.events import Note, WentPastLab
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.subjects.taps.sightings import Sightings
from wirefault.subjects.taps.system_sockets import all_sockets, owners
from wirefault.wiring.intercept_spec import InterceptSpec
from wirefault.wiring.topology import Topology

_LOOK_EVERY_S = 0.02
# a look that takes long, on a machine with many sockets, is taken seldom: a tenth of one processor at most
_LEAST_REST = 9


class WatchedSubject:
    """A subject that records with each attempt which connections were seen to go past the lab.

    All that this process has started during an attempt is taken for the subject.
    """

    def __init__(self, subject: Subject, may_be: Callable[[Address], bool]) -> None:
        self._subject = subject
        self._may_be = may_be

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        sightings, failures = Sightings(self._may_be), list[str]()
        try:
            with _watching(sightings, failures):
                return self._subject(prompt, context)
        finally:
            _record(sightings, failures, context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)


def _record(sightings: Sightings, failures: list[str], context: AttemptContext) -> None:
    now, identity = time.time(), context.identity
    for past, count in sightings.counts.items():
        context.record(
            WentPastLab(
                now,
                identity.episode,
                identity.attempt,
                past.remote.host,
                past.remote.port,
                past.protocol,
                past.program,
                count,
            )
        )
    for failure in failures:
        context.record(Note(now, "warning", f"what goes past the lab could not be watched: {failure}"))


@contextmanager
def _watching(sightings: Sightings, failures: list[str]) -> Iterator[None]:
    """Looks until the block ends, and once then, since what is open may stay open."""
    over = threading.Event()

    def look_again_and_again() -> None:
        last = False
        while not last:
            last, begun = over.is_set(), time.thread_time()
            try:
                programs = owners()
                if sightings.has_news(programs):
                    sightings.take(all_sockets(), programs)
            except OSError as error:
                failures.append(str(error))
                return
            over.wait(max(_LOOK_EVERY_S, _LEAST_REST * (time.thread_time() - begun)))

    looking = threading.Thread(target=look_again_and_again, name="past the lab", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def allowed(topology: Topology, spec: InterceptSpec) -> Callable[[Address], bool]:
    """Tells of an address whether a part of the lab listens there, or whether it is to pass."""
    parts = [topology.front, topology.egress, topology.manager, topology.control]
    parts += [*topology.proxies.values(), *topology.gateways.values()]
    of_lab = {end for part in parts if part is not None for end in _ends(part)}

    def may_be(address: Address) -> bool:
        end = ("" if is_loopback(address.host) else address.host, address.port)
        return end in of_lab or names(spec.pass_, address.host, address.port)

    return may_be


def _ends(address: Address) -> Iterator[tuple[str, int]]:
    """By number, as the system knows them; this machine, which goes by several, by none."""
    try:
        hosts = {str(found[4][0]) for found in getaddrinfo(address.host, None)}
    except OSError:  # no such name: nobody can call it
        hosts = set()
    for host in hosts:
        yield ("" if is_loopback(host) else host, address.port)
