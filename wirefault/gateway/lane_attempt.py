"""The attempt in progress in a lane: what has arrived in it, and what it waits for."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable

from wirefault.core.worlds import TRANSLATOR_HEADER, WORLD_HEADER, world_of
from wirefault.gateway.held_calls import HeldCalls
from wirefault.gateway.run import Run
from wirefault.state.held_calls import HeldCall


def attempt_fields(episode: str, number: int) -> str:
    """The fields of an attempt's records that say which it is of the file's run, as JSON."""
    return f'"episode":{json.dumps(episode, ensure_ascii=False)},"attempt":{number}'


class LaneAttempt:
    """One attempt in a run: how many connections it waits for, and what has arrived in it.

    ``began``: when it was armed, on the clock of ``perf_counter``. ``turn``: the user's turn in progress,
    from 1. ``settling``: it is over, so that no fault holds anything of it up any more.
    ``toxic_links``: those that have a toxic between the gateway and its clients.
    """

    def __init__(
        self, run: Run, episode: str, number: int, tell: Callable[[HeldCall], None] = lambda _: None
    ) -> None:
        self.run = run
        self.episode = episode
        self.number = number
        self.open = 0
        self.turn = 1
        self.settling = False
        self.held_calls = HeldCalls(
            lambda link, call: tell(HeldCall(run.run_id, episode, number, link, call))
        )
        self.began = time.perf_counter()
        self._calls: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.toxic_links = run.toxic_links(episode, number)
        self.fields_json = attempt_fields(episode, number)
        self.lab_headers = (
            f"{WORLD_HEADER}: {world_of(run.run_id, episode)}\r\n"
            f"{TRANSLATOR_HEADER}: {run.settings.translator_backend}\r\n"
        ).encode("latin-1")
        self._arrived: dict[tuple[str, str], int] = {}
        self._quiet: list[asyncio.Future[None]] = []

    def is_(self, episode: str, number: int) -> bool:
        return self.episode == episode and self.number == number

    def count(self, link: str, fingerprint: str) -> int:
        """The ordinal of this request among those on that link that ask for the same, from 1."""
        request = (link, fingerprint)
        ordinal = self._arrived[request] = self._arrived.get(request, 0) + 1
        return ordinal

    def count_call(self, link: str, fingerprint: str, call: int) -> int:
        """The number of this call among all of the attempt on that link, from 1; its tries share it."""
        calls = self._calls[link]
        return calls.setdefault((fingerprint, call), len(calls) + 1)

    def last_call(self, link: str) -> int:
        """The number of the last call there; 1 before the first."""
        return max(len(self._calls.get(link, ())), 1)

    def opened(self) -> None:
        self.open += 1

    def closed(self) -> None:
        self.open -= 1
        if not self.open:
            for waiter in self._quiet:
                if not waiter.done():
                    waiter.set_result(None)
            self._quiet.clear()

    async def quiet(self, bound_s: float) -> None:
        """Waits until none of its connections is open, at most that many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + bound_s
        while self.open and loop.time() < deadline:
            waiter = loop.create_future()
            self._quiet.append(waiter)
            await asyncio.wait([waiter], timeout=deadline - loop.time())
