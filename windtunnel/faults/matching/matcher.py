"""Which armed faults strike a try: selectors, counts and draws, kept for one run. No effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from windtunnel.core.draws import KeyedDraws
from windtunnel.dialects.http import Reply, Request
from windtunnel.dialects.registry import dialect_of
from windtunnel.faults.base import Try
from windtunnel.faults.matching.candidates import Group, LinkCandidates
from windtunnel.faults.matching.trigger_index import Armed
from windtunnel.faults.sets.fault_set import Entry
from windtunnel.faults.sets.triggers import Moment
from windtunnel.links.catalog import LINKS, MODEL_LINK

KEPT_REPLIES = 8
_ANY_MOMENT = Moment()


class IncomingTry(NamedTuple):
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


class MatchedFaults(NamedTuple):
    """What a try met: the entries that it has ``met``, in the order of their set, with what they are shown.

    ``eligible``: the ids of those whose selectors chose it by what no history holds, met or not.
    """

    met: Sequence[tuple[Entry, Try]] = ()
    eligible: Sequence[str] = ()


@dataclass
class _Count:
    """What a group matched in one episode; ``met``: how often each entry was, and by which call last."""

    ordinals: dict[tuple[int, str, int], int] = field(default_factory=dict)
    tries: int = 0
    met: dict[int, tuple[int, int]] = field(default_factory=dict)

    def moment(self, one: IncomingTry, turn: int) -> Moment:
        """Counts this try too."""
        self.tries += 1
        ordinal = self.ordinals.setdefault((one.attempt, one.fingerprint, one.call), len(self.ordinals) + 1)
        return Moment(ordinal, self.tries, turn, one.elapsed_s)


_NOTHING = MatchedFaults()


class FaultMatcher:
    """Of one run: its seed and its entries. ``meet`` is asked once for every try, as they arrive."""

    def __init__(self, seed: int, entries: Iterable[Entry]) -> None:
        self._seed = seed
        self.entries = tuple(entries)
        self._on = {
            link.name: LinkCandidates(e for e in self.entries if link.name in e.links) for link in LINKS
        }
        self._armed = {name for name, aims in self._on.items() if aims.any}
        if any(entry.when.turns for entry in self.entries):
            self._armed.add(MODEL_LINK.name)  # whose requests are the turns
        self._counts: defaultdict[tuple[Group, str], _Count] = defaultdict(_Count)
        self._turns: Counter[tuple[str, int]] = Counter()
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)

    def armed(self, link: str) -> bool:
        """Whether anything could strike or must be counted there, so that the gateway must hold requests."""
        return link in self._armed

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

    def match(self, one: IncomingTry) -> MatchedFaults:
        """What becomes of this try, which is counted."""
        if one.link == MODEL_LINK.name:
            self._turns[one.episode, one.attempt] = max(self._turns[one.episode, one.attempt], one.call)
        groups = self._on[one.link].at(one.method, one.path, one.read)
        if not groups:
            return _NOTHING
        met: list[tuple[Armed, Try]] = []
        eligible: list[str] = []
        draws = KeyedDraws(
            self._seed, one.episode, one.attempt, one.link, one.fingerprint, one.call, one.try_
        )
        for group in groups:
            eligible += group.eligible_ids
            self._ask(group, one, draws, met)
        if not (met or eligible):
            return _NOTHING
        met.sort(key=lambda pair: pair[0].place)
        return MatchedFaults([(armed.entry, this) for armed, this in met], eligible)

    def _ask(self, group: Group, one: IncomingTry, draws: KeyedDraws, met: list[tuple[Armed, Try]]) -> None:
        """Adds those of the group that this try has met."""
        count, at = None, _ANY_MOMENT
        if group.counts:
            count = self._counts[group, one.episode]
            at = count.moment(one, self._turns.get((one.episode, one.attempt), 0))
        elif group.due.timed:
            at = Moment(elapsed_s=one.elapsed_s)
        for armed, chance in group.due.at(at, draws.number):
            if not armed.certain:
                times, last = count.met.get(armed.place, (0, 0)) if count is not None else (0, 0)
                if not armed.entry.when.holds(at._replace(met=times, last_met=last), chance):
                    continue
                if count is not None:
                    count.met[armed.place] = times + 1, at.calls
            entry = armed.entry
            chance_of = partial(_chance, draws, entry.id) if entry.id else draws.draw
            if entry.fault.wants(chance_of):
                met.append((armed, self._try(entry, one, at.calls, chance_of)))

    def _try(self, entry: Entry, one: IncomingTry, ordinal: int, chance: Callable[[str], float]) -> Try:
        return Try(
            link=one.link,
            dialect=dialect_of(one.path, of_model=one.link == MODEL_LINK.name),
            request=one.read(),
            episode=one.episode,
            attempt=one.attempt,
            call=one.call,
            try_=one.try_,
            ordinal=ordinal if entry.fault.by_order else 1,  # the same whoever else counts
            chance=chance,
            earlier=tuple(self._replies[one.episode, one.link]) if entry.fault.remembers else (),
        )


def _chance(draws: KeyedDraws, name: str, purpose: str) -> float:
    return draws.draw(f"{name}:{purpose}")
