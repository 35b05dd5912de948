"""What identifies a try on the wire: W3C ``baggage`` and ``traceparent``, and the headers of the lab."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring as quote
from typing import Any
from urllib.parse import parse_qsl, unquote
from urllib.parse import quote as percent_quote

_SIZE = 8
_EMPTY = blake2b(digest_size=_SIZE)


def body_hash() -> blake2b:
    """An empty hash, to be updated with the body's bytes as they come."""
    return blake2b(digest_size=8)


def body_digest(body: bytes) -> str:
    """BLAKE2b of 8 bytes, hexadecimal."""
    return blake2b(body, digest_size=8).hexdigest()


def digest(*parts: object, size: int = 8) -> bytes:
    """BLAKE2b of the parts, unambiguous: (``"ab"``, ``"c"``) differs from (``"a"``, ``"bc"``)."""
    # the text that json.dumps(..., ensure_ascii=False) makes, at a third of its cost, for each request
    return text_digest("[" + ", ".join([quote(str(part)) for part in parts]) + "]", size)


def text_digest(text: str, size: int = 8) -> bytes:
    hashed = _EMPTY.copy() if size == _SIZE else blake2b(digest_size=size)  # a copy costs less than a new one
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.digest()


def identifier(*parts: object) -> str:
    """A hexadecimal id of 16 digits, fixed by the parts."""
    return digest(*parts).hex()


_STEPS = float(1 << 53)


class KeyedDraws:
    """The draws of one try: each is fixed by the try's names, which are joined once, and by its purpose."""

    __slots__ = ("_names", "_number")

    def __init__(
        self, seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int
    ) -> None:
        quoted = f'{quote(episode)}, "{attempt}", {quote(link)}, {quote(fingerprint)}'
        self._names = f'["{seed}", {quoted}, "{call}", "{try_}"'
        self._number: int | None = None

    def number(self) -> int:
        """64 bits of a hash of the names alone, computed at the first call."""
        if self._number is None:
            self._number = int.from_bytes(text_digest(self._names + "]"), "big")
        return self._number

    def draw(self, purpose: str) -> float:
        """A number in [0, 1): 53 bits of a hash, as in ``random.random``."""
        return (int.from_bytes(text_digest(f"{self._names}, {quote(purpose)}]"), "big") >> 11) / _STEPS


def draw(
    seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int, purpose: str
) -> float:
    """A number in [0, 1), fixed by its arguments."""
    return KeyedDraws(seed, episode, attempt, link, fingerprint, call, try_).draw(purpose)


def choose(number: float, options: Sequence[Any]) -> Any:
    """The option for a draw in [0, 1); all are equally likely."""
    return options[int(number * len(options))]


# what json.dumps(..., sort_keys=True) makes anew at each call, at half its cost
_sorted_json = json.JSONEncoder(sort_keys=True).encode


def fingerprint(method: str, target: str, body: bytes = b"") -> str:
    """A hash of method, path and canonical arguments, in hexadecimal.

    ``target`` is the request target (path and query). Query parameters are sorted; a JSON body is
    taken without regard to the order of its keys or its white space, any other body byte by byte.
    """
    path, _, text = target.partition("?")
    query = str(sorted(_query(text))) if text else "[]"
    content = quote(_canonical(body)) if body else '""'
    canonical = f"{_called(method, path)}{quote(query)}, {content}]"
    return text_digest(canonical).hex()  # digest(method, path, query, body)


@lru_cache(maxsize=256)  # the calls of an attempt mostly go to a few paths
def _called(method: str, path: str) -> str:
    return f"[{quote(method.upper())}, {quote(path)}, "


def _query(text: str) -> list[tuple[str, str]]:
    if "%" in text:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    # the same as parse_qsl, at a fifth of its cost, for each request
    parts = text.replace("+", " ").split("&")
    return [(name, value) for part in parts if part for name, _, value in (part.partition("="),)]


def _canonical(body: bytes) -> str:
    try:
        return _sorted_json(json.loads(_text(body)))
    except (ValueError, RecursionError):  # the latter: nested too deep
        return blake2b(body, digest_size=8).hexdigest()


def _text(body: bytes) -> str | bytes:
    """The body decoded where its encoding is plain; json finds it out for others, which takes longer."""
    is_utf8 = body[0] in b"{[" and body[1:2] != b"\0"
    return body.decode("utf-8", "surrogatepass") if is_utf8 else body


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
            BAGGAGE_HEADER: ",".join(
                f"{_PREFIX}{key}={percent_quote(str(value))}" for key, value in pairs.items()
            ),
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
