"""Which armed faults strike a try: selectors, counts and draws, kept for one run. No effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from windtunnel.catalog import LINKS, MODEL_LINK
from windtunnel.faults.base import Dialect, Try
from windtunnel.faults.message import Reply, Request
from windtunnel.faults.sets import Entry
from windtunnel.faults.when import Moment
from windtunnel.schedule import draw

KEPT_REPLIES = 8


class Arrival(NamedTuple):
    """A try as the gateway identified it: ``elapsed_s`` since the run's start.

    ``read`` gives the request as faults see it; it is asked only if a fault looks at it.
    """

    link: str
    method: str
    path: str
    read: Callable[[], Request]
    fingerprint: str
    episode: str
    attempt: int
    call: int
    try_: int
    elapsed_s: float


@dataclass
class _Count:
    """What one entry matched on one link in one episode."""

    ordinals: dict[tuple[int, str, int], int] = field(default_factory=dict)
    tries: int = 0
    strikes: int = 0
    last_strike: int = 0


class Tally:
    """Of one run: its seed and its entries. ``strikes`` is asked once for every try, as they arrive."""

    def __init__(self, seed: int, entries: Iterable[Entry]) -> None:
        self._seed = seed
        self.entries = tuple(entries)
        self._on = {link.name: _Index(e for e in self.entries if link.name in e.links) for link in LINKS}
        self._counts: defaultdict[tuple[str, str, str], _Count] = defaultdict(_Count)
        self._turns: Counter[tuple[str, int]] = Counter()
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)

    def armed(self, link: str) -> bool:
        """Whether anything could strike there, so that the gateway must hold requests."""
        return bool(self._on[link].entries)

    def needs_body(self, link: str) -> bool:
        """Whether a request's body must be read beyond what its fingerprint takes."""
        return any(entry.fault.needs_body or entry.only.reads_body for entry in self._on[link].entries)

    def remembers(self, link: str) -> bool:
        return any(entry.fault.remembers for entry in self._on[link].entries)

    def remember(self, episode: str, link: str, reply: Reply) -> None:
        """Keeps a whole natural reply for faults that give an earlier one again."""
        kept = self._replies[episode, link]
        kept.append(reply)
        del kept[:-KEPT_REPLIES]

    def strikes(self, one: Arrival) -> list[tuple[Entry, Try]]:
        """The entries that strike this try, in the order of their set."""
        if one.link == MODEL_LINK.name:
            self._turns[one.episode, one.attempt] = max(self._turns[one.episode, one.attempt], one.call)
        struck = []
        for entry in self._on[one.link].candidates(one.method, one.path):
            if entry.aimless or entry.only.matches(one.read()):
                this = self._struck(entry, one)
                if this is not None:
                    struck.append((entry, this))
        return struck

    def _struck(self, entry: Entry, one: Arrival) -> Try | None:
        count = self._counts[entry.id, one.episode, one.link]
        key = (one.attempt, one.fingerprint, one.call)
        ordinal = count.ordinals.setdefault(key, len(count.ordinals) + 1)
        count.tries += 1
        chance = self._chance(entry, one)
        if not entry.always and not self._due(entry, one, count, ordinal, chance):
            return None
        if not entry.fault.wants(chance):
            return None
        count.strikes += 1
        count.last_strike = ordinal
        return Try(
            link=one.link,
            dialect=dialect_of(one.link, one.path),
            request=one.read(),
            episode=one.episode,
            attempt=one.attempt,
            call=one.call,
            try_=one.try_,
            ordinal=ordinal,
            chance=chance,
            earlier=tuple(self._replies[one.episode, one.link]) if entry.fault.remembers else (),
        )

    def _due(
        self, entry: Entry, one: Arrival, count: _Count, ordinal: int, chance: Callable[[str], float]
    ) -> bool:
        moment = Moment(
            calls=ordinal,
            tries=count.tries,
            turn=self._turns[one.episode, one.attempt],
            elapsed_s=one.elapsed_s,
            strikes=count.strikes,
            last_strike=count.last_strike,
        )
        # no draw for what needs none: most entries are certain, or chosen by their counts
        drawn = 0.0 if entry.when.probability == 1 and entry.when.window is None else chance("when")
        return entry.when.strikes(moment, drawn)

    def _chance(self, entry: Entry, one: Arrival) -> Callable[[str], float]:
        def chance(purpose: str) -> float:
            keyed = f"{entry.id}:{purpose}" if entry.id else purpose
            key = (one.episode, one.attempt, one.link, one.fingerprint, one.call, one.try_)
            return draw(self._seed, *key, keyed)

        return chance


class _Index:
    """A link's entries by method and path, so that a request meets only those that could match it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._found: dict[tuple[str, str], Sequence[Entry]] = {}

    def candidates(self, method: str, path: str) -> Sequence[Entry]:
        try:
            return self._found[method, path]
        except KeyError:
            found = tuple(filter(partial(_could_match, method, path), self.entries))
            if len(self._found) < 4096:  # paths come from clients: there may be any number
                self._found[method, path] = found
            return found


def _could_match(method: str, path: str, entry: Entry) -> bool:
    only = entry.only
    return (only.method is None or only.method.upper() == method) and (
        only.path is None or fnmatchcase(path, only.path)
    )


def dialect_of(link: str, path: str) -> Dialect:
    """What is spoken on that link: a tool's own JSON, chat completions, or Anthropic's messages."""
    if link != MODEL_LINK.name:
        return "tool"
    return "anthropic" if path.endswith("/messages") else "openai"
