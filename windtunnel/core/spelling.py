"""The end of every message about an unknown name. It is here, where all packages may import from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str:
    """``; did you mean 'latency'?``, in whatever case it was written; else all the valid names."""
    spelt = {one.lower(): one for one in valid}
    close = get_close_matches(name.lower(), spelt, n=1)
    if close:
        return f"; did you mean {spelt[close[0]]!r}?"
    return f"; valid: {', '.join(spelt.values())}" if spelt else "; it has none"
