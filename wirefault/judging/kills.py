"""The cost of each kill of the subject: what was lost, repeated calls, and the way back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from wirefault.history.events import Exchange, SubjectKilled
from wirefault.judging.requests import Request, SameKey
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import costs_of


@dataclass(frozen=True)
class KillFigures:
    """One kill of the subject and the work after it, until the next kill of the attempt or its end."""

    episode: str
    attempt: int
    number: int  # among the attempt's kills, from 1
    link: str
    point: str
    lost: list[str]  # a sentence for each request whose reply the killed processes did not receive
    repeated: int  # requests that earlier processes of the attempt had already made
    repeated_writes: int  # of these, writes that had already been executed, with or without a key
    recovered: bool
    seconds: float | None  # from the death of the last process to the recovery; None without one
    tokens: int | None  # of the model in that time; None without a recovery or without token counts

    @property
    def text(self) -> str:
        """For example ``2 calls repeated (executed writes: 1), recovered after 1.01 s and 15 tokens``."""
        tokens = "" if self.tokens is None else f" and {self.tokens} tokens"
        end = "not recovered" if self.seconds is None else f"recovered after {self.seconds:.2f} s{tokens}"
        return f"{_repeated_text(self.repeated, self.repeated_writes)}, {end}"


@dataclass(frozen=True)
class KillPoint:
    """All kills of a run at one point of one link, summed up."""

    link: str
    point: str
    n: int
    lost: int  # requests whose reply was lost
    repeated: int
    repeated_writes: int
    recovered: int  # kills
    seconds: float | None  # median of the kills with a recovery
    tokens: float | None  # median of the kills with token counts
    kills: list[KillFigures]

    @property
    def text(self) -> str:
        """For example ``4 at shop, before_reply: 4 replies lost, ...``."""
        lost = f"{self.lost} {'reply' if self.lost == 1 else 'replies'} lost"
        calls = _repeated_text(self.repeated, self.repeated_writes)
        seconds = "" if self.seconds is None else f", median {self.seconds:.2f} s"
        tokens = "" if self.tokens is None else f" and {self.tokens:g} tokens"
        recovered = f"{self.recovered} recovered{seconds}{tokens}"
        return f"{self.n} at {self.link}, {self.point}: {lost}, {calls}, {recovered}"


def _repeated_text(repeated: int, writes: int) -> str:
    calls = f"{repeated} {'call' if repeated == 1 else 'calls'} repeated"
    return f"{calls} (executed writes: {writes})" if writes else calls


def kill_points(traces: Iterable[EpisodeTrace]) -> list[KillPoint]:
    """Return the figures of every kill, by link and point.

    The subject has recovered when the interrupted request succeeds. If that had its reply, or is not sent
    again, any reply that no earlier process received counts, or an attempt that ends with an answer.
    """
    groups: dict[tuple[str, str], list[KillFigures]] = {}
    for trace in traces:
        for kill in episode_kills(trace):
            groups.setdefault((kill.link, kill.point), []).append(kill)
    return [_summed(link, point, kills) for (link, point), kills in groups.items()]


def _summed(link: str, point: str, kills: list[KillFigures]) -> KillPoint:
    seconds = [kill.seconds for kill in kills if kill.seconds is not None]
    tokens = [kill.tokens for kill in kills if kill.tokens is not None]
    return KillPoint(
        link,
        point,
        len(kills),
        sum(len(kill.lost) for kill in kills),
        sum(kill.repeated for kill in kills),
        sum(kill.repeated_writes for kill in kills),
        sum(kill.recovered for kill in kills),
        round(median(seconds), 3) if seconds else None,
        float(median(tokens)) if tokens else None,
        kills,
    )


def episode_kills(trace: EpisodeTrace) -> Iterator[KillFigures]:
    """Yield the figures of each kill of an episode."""
    deaths = sorted((each.event for each in trace.kills if each.event.dead), key=lambda kill: kill.t)
    for killed in deaths:
        times = [kill.t for kill in deaths if kill.attempt == killed.attempt]
        place = times.index(killed.t)
        lives = _lives([each for each in trace.requests if each.attempt == killed.attempt], times)
        after = lives[place + 1]
        again = _repeated(trace, lives[: place + 1], after)
        recovery = _recovery(trace, killed, lives, place)
        yield KillFigures(
            killed.episode,
            killed.attempt,
            killed.number,
            killed.link,
            killed.point,
            [_loss(request) for request in lives[place] if _is_lost(request, killed)],
            len(again),
            _executed_writes(trace, lives[: place + 1], again),
            recovery is not None,
            None if recovery is None else round(max(recovery - killed.t, 0.0), 3),
            None if recovery is None else _tokens(lives[place + 1 :], recovery),
        )


def _lives(requests: Sequence[Request], deaths: Sequence[float]) -> list[list[Request]]:
    """Divide the requests of an attempt among its processes, one after the other."""
    lives: list[list[Request]] = [[] for _ in range(len(deaths) + 1)]
    for request in requests:
        lives[sum(death <= request.start for death in deaths)].append(request)
    return lives


def _repeated(
    trace: EpisodeTrace, before: Sequence[Sequence[Request]], after: Sequence[Request]
) -> list[Request]:
    """Return the requests that an earlier process made as well, each as often as at most one of them did."""
    left: Counter[SameKey] = Counter()
    for life in before:
        left |= Counter(trace.sames[id(request)] for request in life)
    again = []
    for request in after:
        same = trace.sames[id(request)]
        if left[same] > 0:
            left[same] -= 1
            again.append(request)
    return again


def _executed_writes(
    trace: EpisodeTrace, before: Sequence[Sequence[Request]], again: Sequence[Request]
) -> int:
    writes = (each for life in before for each in life if each.is_write and each.executed == "yes")
    executed = {trace.sames[id(each)] for each in writes}
    return sum(trace.sames[id(request)] in executed for request in again)


def _is_lost(request: Request, killed: SubjectKilled) -> bool:
    """Whether the request was in progress when the subject was killed."""
    exchange = request.exchange
    if exchange is None or (exchange.reply_complete and not exchange.client_left):
        return False
    is_interrupted = any(fault.id == killed.entry for fault in request.injected)
    return is_interrupted or exchange.start + exchange.ms / 1000 >= killed.t - killed.ms / 1000


def _loss(request: Request) -> str:
    name = f"{request.name} of {request.link_name}"
    if request.executed == "no":
        return f"{name}: not executed"
    events = [fault.evidence["events"] for fault in request.injected if "events" in fault.evidence]
    how = f"after {events[0]} events of its stream" if events else "before its reply arrived"
    executed = "executed, " if request.executed == "yes" and not request.of_model else ""
    return f"{name}: {executed}lost {how}"


def _recovery(
    trace: EpisodeTrace, killed: SubjectKilled, lives: Sequence[Sequence[Request]], place: int
) -> float | None:
    """Return when the subject had recovered, in seconds since the epoch; None if it had not."""
    before = [request for life in lives[: place + 1] for request in life]
    later = [request for life in lives[place + 1 :] for request in life]
    interrupted = next((each for each in reversed(before) if _is_interrupted(each, killed)), None)
    if interrupted is not None and not interrupted.succeeded:
        same = [each for each in later if trace.sames[id(each)] == trace.sames[id(interrupted)]]
        if same:
            return next((each.end for each in same if each.succeeded), None)
    received = {trace.sames[id(each)] for each in before if each.succeeded}
    ends = [each.end for each in later if each.succeeded and trace.sames[id(each)] not in received]
    end = trace.end_of(killed.attempt)
    if end is not None and end.event.ended_by in ("report", "text") and end.event.error_type is None:
        ends.append(end.event.end)
    return min(ends, default=None)


def _is_interrupted(request: Request, killed: SubjectKilled) -> bool:
    return request.link_name == killed.link and any(fault.id == killed.entry for fault in request.injected)


def _tokens(lives: Sequence[Sequence[Request]], until: float) -> int | None:
    exchanges: list[Exchange] = [
        request.exchange
        for life in lives
        for request in life
        if request.exchange is not None and request.end <= until
    ]
    return costs_of(exchanges, {}).tokens
