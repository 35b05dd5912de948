"""Rates of the failure modes that are drawn for messages, beside the printed ones.

``python -m bench.conversation_rates [--messages N] [--turns served|scripted] [--servers N]``: each message is
the first of its session. ``served``: by ``wirefault lab serve``, whose gateway injects each mode; most of the
time passes in the client's pauses between tries, so that several servers take less. ``scripted``: through the
HTTP API, the sessions and the database in this process, but each turn ends at once without an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import httpx

from bench.conversations import server
from wirefault.conversation.chat import Chat
from wirefault.conversation.modes import Odds, Situation
from wirefault.conversation.server import Api
from wirefault.conversation.store import Store
from wirefault.conversation.turns import TurnResult
from wirefault.conversation.worker import Worker
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.stats.exact import clopper_pearson

# a mode that times out does so soon, and no attempt ends for another reason
QUICK = {
    "PROBABILISTIC_FAILURES": "true",
    "MODEL_TIMEOUT": "0.5",
    "ATTEMPT_TIME": "120",
    "TOOL_TIMEOUT": "30",
}
_QUESTION = "What is 2 + 3?"
# of one interval, so that all of them hold in most runs
_CONFIDENCE = 0.995


@dataclass(frozen=True)
class Rates:
    """How often each mode was drawn, and a fault of it delivered, in so many messages."""

    messages: int
    seconds: float
    drawn: Counter[str]
    delivered: Counter[str]

    def rows(self) -> Iterator[tuple[str, float, int, tuple[float, float], int]]:
        """Yield mode, printed rate, count, interval of the observed rate, and delivered count."""
        for mode, rate in Odds().rates(Situation(1)).items():
            count = self.drawn[mode]
            interval = clopper_pearson(count, self.messages, _CONFIDENCE) or (0.0, 1.0)
            yield mode, rate, count, interval, self.delivered[mode]

    @property
    def outside(self) -> list[str]:
        """The modes whose printed rate is outside the interval of the observed one."""
        return [mode for mode, rate, _, (low, high), _ in self.rows() if not low <= rate <= high]


class Reply(Protocol):
    def json(self) -> Any: ...


def observe(call: Callable[[str, str, Any], Reply], messages: int, first: int = 0) -> Rates:
    """Send the messages, each in its own session, numbered from ``first``. ``call``: method, path, body."""
    began, drawn, delivered = time.monotonic(), Counter[str](), Counter[str]()
    for number in range(first, first + messages):
        reply = call("POST", "/api/v1/chat", {"session_id": f"rate-{number}", "message": _QUESTION}).json()
        mode = reply["failure_mode"] or ""
        drawn[mode] += 1
        delivered[mode] += reply["failure_injection_applied"]
    return Rates(messages, time.monotonic() - began, drawn, delivered)


@dataclass
class _ScriptedRun:
    """Ends each turn at once; a mode's fault counts as delivered."""

    settings: Any
    run_id: str = "scripted"

    def begin_session(self, session: str) -> None:
        """Record nothing."""

    def turn(self, session: str, attempt: int, message: str, faults: FaultSet, *rest: Any) -> TurnResult:
        applied = bool(faults.faults)
        return TurnResult(
            attempt,
            "failure" if applied else "success",
            "5",
            "5",
            "success",
            applied,
            False,
            1.0,
            0,
            "scripted",
        )


@dataclass
class _ScriptedWorker:
    """Does each job in the caller's thread."""

    run: _ScriptedRun
    is_alive: bool = True

    def do(self, job: Callable[[Any, Any], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(job(self.run, SimpleNamespace(last=lambda run, episode: "")))
        return done


@contextmanager
def scripted(
    folder: Path, seed: int, clock: Callable[[], float] = time.time
) -> Iterator[Callable[[str, str, Any], Reply]]:
    """Yield a function that calls the API's app in this process; it has a database in the folder."""
    store = Store(f"sqlite:///{folder / 'conversations.db'}", clock)
    run = _ScriptedRun(SimpleNamespace(seed=seed, recovery=""))
    app = Api(Chat(store, clock, probabilistic=True), cast(Worker, _ScriptedWorker(run)), "token").app()
    headers = {"Authorization": "Bearer token"}
    with asyncio.Runner() as runner:
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        yield lambda method, path, body: runner.run(client.request(method, path, json=body))
        runner.run(client.aclose())
    store.close()


def observe_served(folder: Path, messages: int, servers: int) -> Rates:
    """Share the messages among so many servers at once, each in its own folder."""
    began, share = time.monotonic(), -(-messages // servers)
    firsts = range(0, messages, share)

    def of_server(first: int) -> Rates:
        home = folder / str(first)
        home.mkdir()
        with server(home, QUICK) as call:
            return observe(call, min(share, messages - first), first)

    with ThreadPoolExecutor(servers) as pool:
        each = list(pool.map(of_server, firsts))
    drawn = sum((rates.drawn for rates in each), Counter[str]())
    delivered = sum((rates.delivered for rates in each), Counter[str]())
    return Rates(messages, time.monotonic() - began, drawn, delivered)


def main() -> int:
    """Print the rates; return 1 if one is outside its interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--turns", choices=("served", "scripted"), default="served")
    parser.add_argument("--servers", type=int, default=1, help="for served turns")
    parser.add_argument("--seed", type=int, default=1, help="of scripted turns")
    options = parser.parse_args()
    messages: int = options.messages
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.turns == "scripted":
            with scripted(folder, options.seed) as call:
                rates = observe(call, messages)
        else:
            rates = observe_served(folder, messages, options.servers)
    sys.stdout.write(f"{messages} messages, {options.turns} turns, in {rates.seconds:.0f} s\n")
    for mode, rate, count, (low, high), delivered in rates.rows():
        sys.stdout.write(
            f"{mode:20} printed {rate:.3f}  observed {count / messages:.3f} [{low:.3f}, {high:.3f}]"
            f"  delivered {delivered} of {count}\n"
        )
    return bool(rates.outside)


if __name__ == "__main__":
    sys.exit(main())
