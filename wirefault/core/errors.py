"""Errors for users: the command line prints their message and nothing else."""

from __future__ import annotations

import errno
import os
import resource
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
    """Exit code of a command that ends with this error."""


class InputError(UserError, ValueError):
    """Unusable user input: the command ends with the exit code for wrong usage."""

    code = USAGE


DISK_FULL = "the disk is full"
# SQLite's message, which errors of other processes quote
_SQLITE_FULL = "database or disk is full"


def resource_problem(error: Exception | str, place: str = "") -> str:
    """Describe an exhausted or refused resource, such as a full disk; empty for other errors.

    ``place``: the file or folder, if the error does not name one.
    """
    if not isinstance(error, OSError):
        return DISK_FULL + _at(place) if _SQLITE_FULL in str(error) else ""
    place = str(error.filename or place)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DISK_FULL + _at(place)
    if error.errno == errno.EFBIG:
        return f"a file would become larger than allowed{_at(place)}: raise the limit (ulimit -f)"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files, the limit is {limit}: raise it (ulimit -n 1024)"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and place:
        return f"cannot write{_at(place)}: {os.strerror(error.errno)}"
    return ""


def _at(place: str) -> str:
    return f": {place}" if place else ""


def error_text(error: OSError, place: str = "") -> str:
    """Describe the error in a clause, without its number."""
    if problem := resource_problem(error, place):
        return problem
    named = error.filename or place
    return f"{named}: {error.strerror or error}" if named else str(error.strerror or error)


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean 'latency'?``, ignoring case, or all valid names if none is close."""
    by_lower_case = {known.lower(): known for known in valid}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    if close:
        return f"; did you mean {by_lower_case[close[0]]!r}?"
    return f"; valid: {', '.join(by_lower_case.values())}" if by_lower_case else "; it has none"
