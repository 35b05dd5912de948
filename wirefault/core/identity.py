"""What identifies a try on the wire: W3C ``baggage`` and ``traceparent``, and the headers of the lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from wirefault.core.digest import digest

BAGGAGE_HEADER = "baggage"
TRACEPARENT_HEADER = "traceparent"
_PREFIX = "wirefault."


@dataclass(frozen=True)
class Identity:
    """Names one HTTP try. ``call`` and ``try_`` count from 1; 0 where the sender does not count."""

    run: str
    episode: str
    attempt: int
    call: int = 0
    try_: int = 0

    def headers(self, link: str, fingerprint: str = "") -> dict[str, str]:
        """The ``baggage`` and ``traceparent`` headers of a request on that link with that fingerprint."""
        pairs = {
            "run": self.run,
            "episode": self.episode,
            "attempt": self.attempt,
            "call": self.call,
            "try": self.try_,
        }
        trace = digest(self.run, self.episode, self.attempt, size=16).hex()
        span = digest(self.run, self.episode, self.attempt, link, fingerprint, self.call, self.try_).hex()
        return {
            BAGGAGE_HEADER: ",".join(f"{_PREFIX}{key}={quote(str(value))}" for key, value in pairs.items()),
            TRACEPARENT_HEADER: f"00-{trace}-{span}-01",
        }


def parse_baggage(value: str) -> Identity | None:
    """The identity in a ``baggage`` header; None without one, or if it is not whole."""
    pairs: dict[str, str] = {}
    for member in value.split(","):
        key, equals, text = member.split(";", 1)[0].strip().partition("=")
        if equals and key.startswith(_PREFIX):
            pairs[key.removeprefix(_PREFIX).strip()] = unquote(text.strip())
    return _identity(pairs)


def _identity(pairs: Mapping[str, str]) -> Identity | None:
    try:
        return Identity(
            run=pairs["run"],
            episode=pairs["episode"],
            attempt=_count(pairs["attempt"]),
            call=_count(pairs.get("call", "0")),
            try_=_count(pairs.get("try", "0")),
        )
    except (KeyError, ValueError):
        return None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no count")
    return int(text)


def foreign_members(value: str) -> str:
    """The header without the lab's members, as it goes on to other servers."""
    members = [member for member in value.split(",") if not member.strip().startswith(_PREFIX)]
    return ",".join(members).strip()
