"""An MCP client's results in the words of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

StepResult = Mapping[str, Any]
# each SDK's name for its own time limit
_TIME_LIMIT = (-32001, 408, "SdkError REQUEST_TIMEOUT", "TimeoutError")


def in_words(results: Sequence[StepResult], steps: Sequence[str], good: Sequence[StepResult]) -> str:
    """Describe each step but the last, then the last one if it failed.

    ``good``: the same steps without a fault. A client that has ended has no further results.
    """
    *first_calls, last = [_of_step(results, at, good[at]) for at in range(len(steps))]
    seen = ", then ".join(_of_note(first_calls))
    if "client" in first_calls[-1]:
        return seen
    return seen if last == "good answer" else f"{seen}; the next call: {last}"


def _of_note(words: Sequence[str]) -> Sequence[str]:
    """Return the words from the first failed step to the client's end."""
    first = next((at for at, word in enumerate(words) if word != "good answer"), len(words) - 1)
    last = next((at for at, word in enumerate(words) if "client" in word), len(words) - 1)
    return words[first : last + 1]


def _of_step(results: Sequence[StepResult], at: int, good: StepResult) -> str:
    steps = [one for one in results if one["step"] != "(client)"]
    if at < len(steps):
        return _outcome(steps[at], good)
    ends = [one for one in results if one["step"] == "(client)"]
    return f"the client dies ({ends[-1]['exception']})" if ends else "no word of the client"


def _outcome(step: StepResult, good: StepResult) -> str:
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
