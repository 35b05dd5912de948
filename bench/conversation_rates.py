"""Rates of the failure modes through the real server, beside the printed ones.

``python -m bench.conversation_rates [MESSAGES]``: each message is the first of its session.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from bench.conversations import server
from wirefault.conversation.modes import Odds, Situation
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


def observe(call: Callable[[str, str, Any], requests.Response], messages: int) -> Rates:
    """Send the messages, each in its own session. ``call``: method, path, body."""
    began, drawn, delivered = time.monotonic(), Counter[str](), Counter[str]()
    for number in range(messages):
        reply = call("POST", "/api/v1/chat", {"session_id": f"rate-{number}", "message": _QUESTION}).json()
        mode = reply["failure_mode"] or ""
        drawn[mode] += 1
        delivered[mode] += reply["failure_injection_applied"]
    return Rates(messages, time.monotonic() - began, drawn, delivered)


def main(messages: int = 300) -> int:
    """Print the rates; return 1 if one is outside its interval."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), QUICK) as call:
        rates = observe(call, messages)
    sys.stdout.write(f"{messages} messages in {rates.seconds:.0f} s\n")
    for mode, rate, count, (low, high), delivered in rates.rows():
        sys.stdout.write(
            f"{mode:20} printed {rate:.3f}  observed {count / messages:.3f} [{low:.3f}, {high:.3f}]"
            f"  delivered {delivered} of {count}\n"
        )
    return bool(rates.outside)


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in sys.argv[1:])))
