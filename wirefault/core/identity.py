"""Keyed hashes and draws, and the identity of a try on the wire: W3C ``baggage`` and ``traceparent``."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring as quote
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote
from urllib.parse import quote as percent_quote

_SIZE = 8
_FRACTION_BITS, _RANDOM_BITS = 10, 14
_EMPTY = blake2b(digest_size=_SIZE)


def new_run_id(clock: Callable[[], float] = time.time) -> str:
    """Return a run id that sorts by time, to the millisecond: the rest of its suffix is random."""
    now = clock()
    suffix = int(now % 1 * (1 << _FRACTION_BITS)) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(now)) + f"{suffix:06x}"


def body_hash() -> blake2b:
    """Return an empty hash to update with the body's bytes as they arrive."""
    return blake2b(digest_size=8)


def body_digest(body: bytes) -> str:
    """Return BLAKE2b of the body with 8 bytes, in hexadecimal."""
    return blake2b(body, digest_size=8).hexdigest()


def digest(*parts: object, size: int = 8) -> bytes:
    """Return BLAKE2b of the parts. It is unambiguous: (``"ab"``, ``"c"``) and (``"a"``, ``"bc"``) differ."""
    # same text as json.dumps(..., ensure_ascii=False) at a third of the cost; runs for every request
    return text_digest("[" + ", ".join([quote(str(part)) for part in parts]) + "]", size)


def text_digest(text: str, size: int = 8) -> bytes:
    hashed = _EMPTY.copy() if size == _SIZE else blake2b(digest_size=size)  # copying is cheaper than creating
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.digest()


def identifier(*parts: object) -> str:
    """Return a hexadecimal id of 16 digits, derived from the parts."""
    return digest(*parts).hex()


_STEPS = float(1 << 53)


class KeyedDraws:
    """The draws of one try. Each depends on the identity of the try and on the draw's purpose."""

    __slots__ = ("_names", "_number")

    def __init__(
        self, seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int
    ) -> None:
        quoted = f'{quote(episode)}, "{attempt}", {quote(link)}, {quote(fingerprint)}'
        self._names = f'["{seed}", {quoted}, "{call}", "{try_}"'
        self._number: int | None = None

    def number(self) -> int:
        """Return 64 bits of a hash of the try's identity alone, computed on first use."""
        if self._number is None:
            self._number = int.from_bytes(text_digest(self._names + "]"), "big")
        return self._number

    def draw(self, purpose: str) -> float:
        """Return a number in [0, 1): 53 bits of a hash, as in ``random.random``."""
        return (int.from_bytes(text_digest(f"{self._names}, {quote(purpose)}]"), "big") >> 11) / _STEPS


def draw(
    seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int, purpose: str
) -> float:
    """Return a number in [0, 1) that depends only on the arguments."""
    return KeyedDraws(seed, episode, attempt, link, fingerprint, call, try_).draw(purpose)


def choose(number: float, options: Sequence[Any]) -> Any:
    """Map a draw in [0, 1) to an option; all options are equally likely."""
    return options[int(number * len(options))]


# json.dumps(..., sort_keys=True) would build this encoder at each call, at twice the cost
_sorted_json = json.JSONEncoder(sort_keys=True).encode


def fingerprint(method: str, target: str, body: bytes = b"") -> str:
    """Return a hash of method, path and canonical arguments, in hexadecimal.

    ``target`` is the request target (path and query). Query parameters are sorted. The order of keys and the
    white space of a JSON body do not matter; any other body is hashed byte by byte.
    """
    path, _, text = target.partition("?")
    query = str(sorted(_query(text))) if text else "[]"
    content = quote(_canonical(body)) if body else '""'
    canonical = f"{_method_and_path(method, path)}{quote(query)}, {content}]"
    return text_digest(canonical).hex()  # equals digest(method, path, query, body)


@lru_cache(maxsize=256)  # most calls of an attempt use few paths
def _method_and_path(method: str, path: str) -> str:
    return f"[{quote(method.upper())}, {quote(path)}, "


def _query(text: str) -> list[tuple[str, str]]:
    if "%" in text:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    # same result as parse_qsl at a fifth of the cost; runs for every request
    parts = text.replace("+", " ").split("&")
    return [(name, value) for part in parts if part for name, _, value in (part.partition("="),)]


def _canonical(body: bytes) -> str:
    try:
        return _sorted_json(json.loads(_text(body)))
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return blake2b(body, digest_size=8).hexdigest()


def _text(body: bytes) -> str | bytes:
    """Decode UTF-8 at once; leave other encodings to ``json``, which detects them but is slower."""
    is_utf8 = body[0] in b"{[" and body[1:2] != b"\0"
    return body.decode("utf-8", "surrogatepass") if is_utf8 else body


BAGGAGE_HEADER = "baggage"
TRACEPARENT_HEADER = "traceparent"
_PREFIX = "wirefault."
_MAC_SIZE = 16


@dataclass(frozen=True)
class Identity:
    """The name of one HTTP try. ``call`` and ``try_`` count from 1; 0 if the sender does not count."""

    run: str
    episode: str
    attempt: int
    call: int = 0
    try_: int = 0

    def headers(self, link: str, fingerprint: str = "", key: bytes = b"") -> dict[str, str]:
        """Return the ``baggage`` and ``traceparent`` headers of a request on the link.

        ``key``: the run's key. The gateway trusts baggage only with a MAC under this key.
        """
        pairs = {
            "run": self.run,
            "episode": self.episode,
            "attempt": self.attempt,
            "call": self.call,
            "try": self.try_,
        }
        if key:
            pairs["mac"] = self.mac(link, key)
        trace = digest(self.run, self.episode, self.attempt, size=16).hex()
        span = digest(self.run, self.episode, self.attempt, link, fingerprint, self.call, self.try_).hex()
        return {
            BAGGAGE_HEADER: ",".join(
                f"{_PREFIX}{key}={percent_quote(str(value))}" for key, value in pairs.items()
            ),
            TRACEPARENT_HEADER: f"00-{trace}-{span}-01",
        }

    def mac(self, link: str, key: bytes) -> str:
        """Return the MAC of this try on that link: keyed BLAKE2b with 16 bytes, in hexadecimal."""
        mac = _started_mac(key, self.run, self.episode, self.attempt, link).copy()
        mac.update(f", {self.call}, {self.try_}]".encode())
        return mac.hexdigest()


@lru_cache(maxsize=256)  # the same for all requests of an attempt on a link
def _started_mac(key: bytes, run: str, episode: str, attempt: int, link: str) -> blake2b:
    text = f"[{quote(run)}, {quote(episode)}, {attempt}, {quote(link)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=_MAC_SIZE)


class Sender(NamedTuple):
    """The sender that a request's baggage names."""

    identity: Identity
    mac: str
    """Empty if the header has none."""

    def is_signed(self, link: str, key: bytes) -> bool:
        """Return whether the MAC is valid for a request on that link. Compares in constant time."""
        expected = self.identity.mac(link, key)
        # compare_digest takes no other texts, and no other text is a MAC
        return bool(key) and self.mac.isascii() and hmac.compare_digest(expected, self.mac)


def parse_baggage(value: str) -> Identity | None:
    """Return the identity in a ``baggage`` header; None if it is missing or incomplete."""
    sender = parse_sender(value)
    return sender.identity if sender is not None else None


def parse_sender(value: str) -> Sender | None:
    """Return identity and MAC in a ``baggage`` header; None if the identity is missing or incomplete."""
    pairs: dict[str, str] = {}
    for member in value.split(","):
        key, equals, text = member.split(";", 1)[0].strip().partition("=")
        if equals and key.startswith(_PREFIX):
            pairs[key.removeprefix(_PREFIX).strip()] = unquote(text.strip())
    identity = _identity(pairs)
    return Sender(identity, pairs.get("mac", "")) if identity is not None else None


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
        raise ValueError(f"{text!r} is not a count")
    return int(text)


def foreign_members(value: str) -> str:
    """Return the header without the lab's members, for other servers."""
    members = [member for member in value.split(",") if not member.strip().startswith(_PREFIX)]
    return ",".join(members).strip()
