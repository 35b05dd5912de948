"""Recipes for any Python agent: idempotency keys, verify after write, loop breaker.

They need no lab, no framework and no client: an agent passes its own functions.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from wirefault.core.identity import identifier

T = TypeVar("T")


def step_key(run: str, step: int, index: int = 0) -> str:
    """Return an idempotency key for one tool call of one step of a run.

    All tries of that call share it, also after a restart that continues the same step. ``run`` must be unique
    (a thread or task id), ``step`` is the number of the model's reply, ``index`` the call's place in it. A
    model that asks again in a later step gets a new key: then the write is carried out again.
    """
    return identifier("step", run, step, index)


def argument_key(run: str, tool: str, arguments: Mapping[str, object]) -> str:
    """Return an idempotency key for a tool and its arguments, in any order.

    It survives a model that asks again in other steps. Its price: a second equal order that is wanted has
    the same key, and is swallowed. Use it only where equal writes are never wanted, or put a part into
    ``arguments`` that tells them apart.
    """
    return identifier("arguments", run, tool, json.dumps(arguments, sort_keys=True, default=str))


class NotVerified(Exception):
    """The reply of a write was lost, and the state does not show the write; the cause is the lost reply."""


def verify_after_write(
    write: Callable[[], T],
    read: Callable[[], T | None],
    lost: type[BaseException] | tuple[type[BaseException], ...],
    *,
    writes: int = 1,
    reads: int = 1,
    pause: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Write, and if the reply is lost, read the state in place of the same write again.

    ``read`` returns the write's result if the state shows it, else None. ``lost`` are the errors after which
    the write may have been carried out, such as a timeout of reading. ``writes`` is the number of writes,
    each but the first only after ``reads`` reads that did not show the one before; ``pause`` are seconds
    before each read. Raises ``NotVerified`` after the last, and other errors of ``write`` and ``read``
    unchanged.

    Two traps: an equal entry that was there before the write passes for it, and a write that is carried out
    after the reads is carried out twice. A pause longer than the service's own limit closes the second.
    """
    while True:
        try:
            return write()
        except lost as error:
            for _ in range(reads):
                sleep(pause)
                result = read()
                if result is not None:
                    return result
            writes -= 1
            if writes <= 0:
                raise NotVerified("the reply was lost, and the state does not show the write") from error


class LoopDetected(Exception):
    """The agent repeats a call; the message is written for the model."""


class LoopBreaker:
    """Refuses a call that repeats earlier equal calls with equal results. Safe in threads.

    One object serves one task. A call with the same tool and arguments whose result changes is progress, such
    as waiting for a job to end, and never refused. Its price: equal calls that are wanted are refused, too,
    if their replies are equal.
    """

    def __init__(self, repeats: int = 3) -> None:
        """``repeats``: equal calls with equal results that are allowed in a row."""
        self._repeats = repeats
        self._last: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._pending: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self, tool: str, arguments: Mapping[str, object]) -> None:
        """Begin a call. Raise ``LoopDetected`` if it has had the same result too often.

        A call in progress counts as if it had that result, too.
        """
        key = argument_key("", tool, arguments)
        with self._lock:
            count = self._counts[key] + self._pending[key]
            self._pending[key] += count < self._repeats
        if count >= self._repeats:
            raise LoopDetected(
                f"{tool} was called {count} times with the same arguments and the same result."
                " Do not call it again like this: change the arguments, or finish with what you have."
            )

    def record(self, tool: str, arguments: Mapping[str, object], result: object) -> None:
        """End a call that ``check`` let through; ``result`` may also be its error, as text or JSON."""
        key, text = argument_key("", tool, arguments), json.dumps(result, sort_keys=True, default=str)
        with self._lock:
            self._pending[key] -= 1
            self._counts[key] = self._counts[key] + 1 if self._last.get(key) == text else 1
            self._last[key] = text
