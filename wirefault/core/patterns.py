"""Regular expressions that a file gives: RE2's, which take linear time whatever the text. Pure."""

from __future__ import annotations

from typing import Any

_MEMORY = 1 << 20  # bytes


def checked_pattern(pattern: str) -> str:
    """The pattern itself. Raises ``ValueError`` that says what is wrong with it."""
    _compiled(pattern)
    return pattern


def occurs(pattern: str, text: str) -> bool:
    """Whether it matches somewhere in the text. Raises ``ValueError`` for a bad pattern."""
    return _compiled(pattern).search(text) is not None


def _compiled(pattern: str) -> Any:
    import re2  # here, since few files have a pattern, and it takes its time to load

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(f"is no RE2 pattern: {reason}") from None
