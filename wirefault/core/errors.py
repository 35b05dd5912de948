"""Errors whose message is written for a person: the command line shows it and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """The message says what is wrong, where, and what to do."""


class InputError(UserError, ValueError):
    """Something that a person gave cannot be used: a usage error of the command."""


DEVIATED = 1
UNKNOWN = 2
USAGE = 64
LAB_FAILED = 70


def nearest(name: str, valid: Iterable[str]) -> str:
    """``; did you mean 'latency'?``, without regard to case; all the valid names if none is near."""
    by_lower_case = {known.lower(): known for known in valid}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    if close:
        return f"; did you mean {by_lower_case[close[0]]!r}?"
    return f"; valid: {', '.join(by_lower_case.values())}" if by_lower_case else "; it has none"
