"""Which armed faults strike a try: selectors, counts and draws, kept for one run. No effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from windtunnel.catalog import LINKS, MODEL_LINK
from windtunnel.faults.aim import Aims, Group
from windtunnel.faults.base import Dialect, Try
from windtunnel.faults.due import Armed
from windtunnel.faults.message import Reply, Request
from windtunnel.faults.sets import Entry
from windtunnel.faults.when import Moment
from windtunnel.schedule import digest, draw

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

    @property
    def key(self) -> tuple[str, int, str, str, int, int]:
        """What names it in the schedule's draws."""
        return self.episode, self.attempt, self.link, self.fingerprint, self.call, self.try_


@dataclass
class _Count:
    """What a group matched in one episode; ``strikes`` how often each of it struck, and the last call."""

    ordinals: dict[tuple[int, str, int], int] = field(default_factory=dict)
    tries: int = 0
    strikes: dict[int, tuple[int, int]] = field(default_factory=dict)


class Tally:
    """Of one run: its seed and its entries. ``strikes`` is asked once for every try, as they arrive."""

    def __init__(self, seed: int, entries: Iterable[Entry]) -> None:
        self._seed = seed
        self.entries = tuple(entries)
        self._on = {link.name: Aims(e for e in self.entries if link.name in e.links) for link in LINKS}
        self._counts: defaultdict[tuple[Group, str], _Count] = defaultdict(_Count)
        self._turns: Counter[tuple[str, int]] = Counter()
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)

    def armed(self, link: str) -> bool:
        """Whether anything could strike there, so that the gateway must hold requests."""
        return self._on[link].any

    def needs_body(self, link: str) -> bool:
        """Whether a request's body must be read beyond what its fingerprint takes."""
        return self._on[link].needs_body

    def remembers(self, link: str) -> bool:
        return self._on[link].remembers

    def remember(self, episode: str, link: str, reply: Reply) -> None:
        """Keeps a whole natural reply for faults that give an earlier one again."""
        kept = self._replies[episode, link]
        kept.append(reply)
        del kept[:-KEPT_REPLIES]

    def strikes(self, one: Arrival) -> list[tuple[Entry, Try]]:
        """The entries that strike this try, in the order of their set."""
        if one.link == MODEL_LINK.name:
            self._turns[one.episode, one.attempt] = max(self._turns[one.episode, one.attempt], one.call)
        number = _Number(self._seed, one)
        groups = self._on[one.link].at(one.method, one.path, one.read)
        struck = [pair for group in groups for pair in self._of(group, one, number)]
        if len(struck) > 1:
            struck.sort(key=lambda pair: pair[0].place)
        return [(armed.entry, this) for armed, this in struck]

    def _of(self, group: Group, one: Arrival, number: _Number) -> Iterator[tuple[Armed, Try]]:
        """Those of the group that strike."""
        count = self._counts[group, one.episode]
        ordinal = count.ordinals.setdefault((one.attempt, one.fingerprint, one.call), len(count.ordinals) + 1)
        count.tries += 1
        at = (ordinal, count.tries, self._turns[one.episode, one.attempt], one.elapsed_s)
        for armed, chance in group.due.at(*at, number):
            if not armed.certain:
                strikes, last = count.strikes.get(armed.place, (0, 0))
                if not armed.entry.when.strikes(Moment(*at, strikes, last), chance):
                    continue
                count.strikes[armed.place] = strikes + 1, ordinal
            draws = partial(_chance, self._seed, armed.entry.id, one)
            if armed.entry.fault.wants(draws):
                yield armed, self._try(armed.entry, one, ordinal, draws)

    def _try(self, entry: Entry, one: Arrival, ordinal: int, chance: Callable[[str], float]) -> Try:
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


class _Number:
    """64 bits that are a try's own, hashed when they are first asked for."""

    def __init__(self, seed: int, one: Arrival) -> None:
        self._of = (seed, one)
        self._number: int | None = None

    def __call__(self) -> int:
        if self._number is None:
            seed, one = self._of
            self._number = int.from_bytes(digest(seed, *one.key), "big")
        return self._number


def _chance(seed: int, name: str, one: Arrival, purpose: str) -> float:
    return draw(seed, *one.key, f"{name}:{purpose}" if name else purpose)


def dialect_of(link: str, path: str) -> Dialect:
    """What is spoken on that link: a tool's own JSON, chat completions, or Anthropic's messages."""
    if link != MODEL_LINK.name:
        return "tool"
    return "anthropic" if path.endswith("/messages") else "openai"
