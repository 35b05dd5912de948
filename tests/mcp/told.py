"""What a client of MCP told of its steps, in the words of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Told = Mapping[str, Any]
# what each SDK calls the end of its own time limit
_TIME_LIMIT = (-32001, 408, "SdkError REQUEST_TIMEOUT", "TimeoutError")


def in_words(told: Sequence[Told], steps: Sequence[str], good: Sequence[Told]) -> str:
    """What became of each step but the last, and after that, where it did not go well, of the last one.

    ``good``: what the same steps come to without a fault. A client that is gone tells of no further step.
    """
    *struck, last = [_of_step(told, at, good[at]) for at in range(len(steps))]
    seen = ", then ".join(_of_note(struck))
    if "client" in struck[-1]:
        return seen
    return seen if last == "good answer" else f"{seen}; the next call: {last}"


def _of_note(words: Sequence[str]) -> Sequence[str]:
    """From the first step that did not go well to the one at which the client ended."""
    first = next((at for at, word in enumerate(words) if word != "good answer"), len(words) - 1)
    last = next((at for at, word in enumerate(words) if "client" in word), len(words) - 1)
    return words[first : last + 1]


def _of_step(told: Sequence[Told], at: int, good: Told) -> str:
    steps = [one for one in told if one["step"] != "(client)"]
    if at < len(steps):
        return _outcome(steps[at], good)
    ends = [one for one in told if one["step"] == "(client)"]
    return f"the client dies ({ends[-1]['exception']})" if ends else "no word of the client"


def _outcome(step: Told, good: Told) -> str:
    if step == good:
        return "good answer"
    if "text" in step or "tools" in step:
        return "silent: taken as good"
    if "error" in step:
        return "tool error"
    if step["step"] == "cancel":
        return "cancelled by itself"
    if step.get("code") in _TIME_LIMIT or step.get("exception") in _TIME_LIMIT:
        return "its time limit"
    return f"error {step['code']}" if "code" in step else f"exception {step['exception']}"
