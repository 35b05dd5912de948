"""Errors whose message is written for people: the command line prints the message and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

DEVIATED = 1
UNKNOWN = 2
USAGE = 64
LAB_FAILED = 70


class UserError(Exception):
    """The message says what is wrong, where, and what to do."""

    code: ClassVar[int] = LAB_FAILED
    """The exit code of a command that it ends."""


class InputError(UserError, ValueError):
    """Unusable user input: the command ends with the exit code for wrong usage."""

    code = USAGE


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean 'latency'?``, ignoring case, or all valid names if none is close."""
    by_lower_case = {known.lower(): known for known in valid}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    if close:
        return f"; did you mean {by_lower_case[close[0]]!r}?"
    return f"; valid: {', '.join(by_lower_case.values())}" if by_lower_case else "; it has none"
