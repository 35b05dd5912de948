"""The ``baggage`` header of a request, read once for all that send the same."""

from __future__ import annotations

from functools import lru_cache

from wirefault.core.identity import Identity, foreign_members, parse_baggage

# The tries of an attempt mostly send the same baggage: their first call of its kind, first try.
_KEPT = 1024


@lru_cache(_KEPT)
def identity_in(baggage: bytes) -> Identity | None:
    """Whose request it is, as its sender says; None if it does not say."""
    return parse_baggage(baggage.decode("latin-1"))


@lru_cache(_KEPT)
def foreign_baggage(baggage: bytes) -> bytes:
    """What of it another's server gets: all that is not the lab's."""
    return foreign_members(baggage.decode("latin-1")).encode("latin-1")
