"""Counts the calls of one attempt: a client's own retry is a try of the call that it repeats.

A request is a retry if the client's SDK marks it as one. An unmarked request is a retry if it repeats the
last request on its link, and that try failed. It is a new call if something in between may have caused it:

- a model's reply, for a request to a tool: the model may have asked again;
- a request that was made before the failed call and is made once more: the program repeats a whole step;
- another credential, or another session of MCP, after a status 4xx: the client has corrected the refused
  request.

Requests to models may run in parallel, so other requests to them in between make no new call.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from wirefault.dialects.sameness import Wanted, same_digest

# Failed calls that a later request may repeat. Each keeps the body of its request.
_MAX_FAILURES = 16


class CallName(NamedTuple):
    """A call among those of the attempt on one link."""

    fingerprint: str
    number: int
    """Among those with this fingerprint, from 1."""


class Call(NamedTuple):
    name: CallName
    at: float
    """When its first try arrived."""


@dataclass(slots=True, eq=False)
class CountedTry:
    """A request with all that the count of calls needs."""

    link: str
    method: str
    target: str
    fingerprint: str
    """Empty for a request to a model."""
    body: bytes
    body_size: int | None
    """Of the whole body; None if it is longer than ``body`` and unknown."""
    at: float
    """When it arrived (``perf_counter``)."""
    of_model: bool = False
    tool: str = ""
    """MCP: the tool that it calls."""
    is_protocol: bool = False
    """It is a message of MCP that calls no tool."""
    access: str = ""
    """Its credential and its session of MCP."""
    key_field: str = ""
    """The field by which the link's server recognizes a repetition."""
    call: Call | None = None
    """None until ``AttemptCalls.name``."""
    failed_at: float | None = None
    """None while it is unanswered, and after a reply that shows no failure."""
    was_refused: bool = False
    """It failed with a status 4xx."""

    def repeats(self, other: CountedTry) -> bool:
        """Whether it asks for the same as the other one, apart from times and from ids of the single try."""
        if (self.link, self.method, self.of_model) != (other.link, other.method, other.of_model):
            return False
        if self._path != other._path or self.tool != other.tool or self.body_size is None:
            return False
        same_name = bool(self.fingerprint) and self.fingerprint == other.fingerprint
        if same_name or (self.body, self.target) == (other.body, other.target):
            return self._is_whole or self.body_size == other.body_size
        if not (self._is_whole and other._is_whole):
            return False
        now = time.time()
        digest = self._digest(now)
        return digest is not None and digest == other._digest(now)

    @property
    def _is_whole(self) -> bool:
        return self.body_size == len(self.body)

    @property
    def _path(self) -> str:
        return self.target.partition("?")[0]

    def _digest(self, now: float) -> str | None:
        try:
            body = self.body.decode()
        except UnicodeDecodeError:
            return None
        wanted = Wanted(self.link, self.method, self.target, self.tool, body, now, self.key_field)
        # any id may name something: only fields that are for the single try are left out
        return same_digest(wanted, self.fingerprint, lambda _: True)


class AttemptCalls:
    """The calls of one attempt, and the failed ones that the next request may repeat."""

    def __init__(self) -> None:
        self._arrived: dict[tuple[str, str], int] = {}
        self._retries: Counter[tuple[str, str]] = Counter()
        self._first_at: dict[tuple[str, str, int], float] = {}
        self._by_request: dict[tuple[str, str, int], Call] = {}
        self._on_link: defaultdict[str, dict[CallName, int]] = defaultdict(dict)
        self._failures: list[CountedTry] = []

    def count_arrival(self, link: str, fingerprint: str) -> int:
        """Count a request; return its number among those with this fingerprint on that link, from 1."""
        request = (link, fingerprint)
        ordinal = self._arrived[request] = self._arrived.get(request, 0) + 1
        return ordinal

    def name(self, tried: CountedTry, arrival: int, *, is_marked: bool) -> CallName:
        """Return the call of this request, once for each. ``is_marked``: its SDK calls it a retry."""
        key = (tried.link, tried.fingerprint, hash(tried.body))
        call = self._by_request.get(key) if is_marked else None
        if call is None:
            call = next((each.call for each in reversed(self._failures) if _is_retry(tried, each)), None)
        if call is not None:
            self._retries[tried.link, tried.fingerprint] += 1
            self._drop(lambda each: each.link == tried.link and each.call == call)
        else:
            number = arrival - self._retries[tried.link, tried.fingerprint]
            call = Call(CallName(tried.fingerprint, number), tried.at)
            self._note_new(tried)
        tried.call = self._by_request[key] = call
        return call.name

    def note_other(self, link: str, fingerprint: str, at: float) -> None:
        """Note a request to a tool that is not counted: no fault is armed on its link."""
        first_at = self._first_at.setdefault((link, fingerprint, 0), at)
        if self._failures:
            self._note_step(first_at, at)

    def note_model_reply(self, at: float) -> None:
        """A request to a model that arrived then has its reply: the model may have asked for a call again."""
        self._drop(lambda each: not each.of_model and each.failed_at is not None and each.failed_at <= at)

    def fail(self, tried: CountedTry, now: float, *, was_refused: bool = False) -> None:
        """The try failed, or its client has left."""
        if tried.failed_at is None:
            tried.failed_at = now
            self._failures.append(tried)
            del self._failures[:-_MAX_FAILURES]
        tried.was_refused = was_refused

    def answer(self, tried: CountedTry) -> None:
        """The client has a reply that shows no failure."""
        if tried.failed_at is not None:
            tried.failed_at = None
            self._drop(lambda each: each is tried)

    def _note_new(self, tried: CountedTry) -> None:
        """Drop the failures after which this request shows that the client repeats more than one call."""
        if tried.is_protocol:
            return
        if not tried.of_model:
            self._drop(lambda each: each.link == tried.link and _had_failed(each, tried.at))
        key = (tried.link, tried.fingerprint, hash(tried.body) if tried.of_model else 0)
        self._note_step(self._first_at.setdefault(key, tried.at), tried.at)

    def _note_step(self, first_at: float, at: float) -> None:
        """A request that was first made at ``first_at`` is made once more."""
        if self._failures and first_at < at:
            self._drop(
                lambda each: each.call is not None and first_at < each.call.at and _had_failed(each, at)
            )

    def _drop(self, is_over: Callable[[CountedTry], bool]) -> None:
        if self._failures:
            self._failures = [each for each in self._failures if not is_over(each)]

    def number_on_link(self, link: str, call: CallName) -> int:
        """Return the number of this call among all calls on that link, from 1; its tries share it."""
        calls = self._on_link[link]
        return calls.setdefault(call, len(calls) + 1)

    def last_on_link(self, link: str) -> int:
        """Return the number of the last call on that link; 1 before the first."""
        return max(len(self._on_link.get(link, ())), 1)


def _had_failed(tried: CountedTry, at: float) -> bool:
    return tried.failed_at is not None and tried.failed_at <= at


def _is_retry(tried: CountedTry, failure: CountedTry) -> bool:
    """Whether the unmarked request repeats the failed one as it was."""
    has_mended = failure.was_refused and failure.access != tried.access
    return not has_mended and tried.repeats(failure)


@dataclass(slots=True)
class _OpenFunction:
    path: str
    is_clear: bool = True
    """No request began meanwhile, or none that another function may have sent."""


class OpenFunctions:
    """The subject's own functions that run now in an attempt.

    ``sends`` outlives the attempt: by path, whether a call of it has sent a request, as far as known.
    """

    def __init__(self, sends: dict[str, bool]) -> None:
        self._sends = sends
        self.running: dict[int, _OpenFunction] = {}

    def begin(self, call: int, path: str) -> None:
        """``call`` identifies it until ``end``."""
        self.running[call] = _OpenFunction(path)

    def note_request(self) -> None:
        """A request of the subject arrived: one of the running functions may have sent it."""
        paths = {function.path for function in self.running.values()}
        if len(paths) == 1:
            self._sends[paths.pop()] = True
        else:
            for function in self.running.values():
                function.is_clear = False

    def end(self, call: int) -> None:
        function = self.running.pop(call, None)
        if function is not None and function.is_clear:
            self._sends.setdefault(function.path, False)
