"""The plan: which faults a seed draws. Pure; every draw is a keyed hash, never a shared random stream.

So the plan is the same at 1 and at 32 workers, under retries and parallel calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from json.encoder import encode_basestring as _quote
from typing import Any, Protocol
from urllib.parse import parse_qsl

from proxy_manager.toxics import ToxicSpec
from windtunnel.catalog import TOOL_LINKS

ERROR_KINDS: tuple[tuple[str, int], ...] = (("server_error", 500), ("unavailable", 503), ("rate_limit", 429))
_STEPS = float(1 << 53)


def digest(*parts: object, size: int = 8) -> bytes:
    """BLAKE2b of the parts, unambiguous: (``"ab"``, ``"c"``) differs from (``"a"``, ``"bc"``)."""
    # what json.dumps(..., ensure_ascii=False) makes of it, at a third of its cost: every request pays
    return _hash("[" + ", ".join([_quote(str(part)) for part in parts]) + "]", size)


def _hash(text: str, size: int = 8) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def identifier(*parts: object) -> str:
    """A 16-digit hexadecimal id made of the parts."""
    return digest(*parts).hex()


class KeyedDraws:
    """The draws of one try, or of what else is named so: each fixed by those names and its purpose.

    What they share is put together once: every request pays.
    """

    __slots__ = ("_names", "_number")

    def __init__(
        self, seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int
    ) -> None:
        quoted = f'{_quote(episode)}, "{attempt}", {_quote(link)}, {_quote(fingerprint)}'
        self._names = f'["{seed}", {quoted}, "{call}", "{try_}"'
        self._number: int | None = None

    def number(self) -> int:
        """64 bits that are the try's own, hashed when they are first asked for."""
        if self._number is None:
            self._number = int.from_bytes(_hash(self._names + "]"), "big")
        return self._number

    def draw(self, purpose: str) -> float:
        """A number in [0, 1): 53 bits of a hash, as in ``random.random``."""
        return (int.from_bytes(_hash(f"{self._names}, {_quote(purpose)}]"), "big") >> 11) / _STEPS


def draw(
    seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int, purpose: str
) -> float:
    """A number in [0, 1), fixed by its arguments."""
    return KeyedDraws(seed, episode, attempt, link, fingerprint, call, try_).draw(purpose)


def fingerprint(method: str, target: str, body: bytes = b"") -> str:
    """What is asked for: method, path and canonical arguments, hashed.

    ``target`` is the request target (path and query). Query parameters are sorted; a JSON body is
    taken without regard to the order of its keys or its white space, any other body byte by byte.
    """
    path, _, text = target.partition("?")
    query = str(sorted(_query(text))) if text else "[]"
    asked = f"[{_quote(method.upper())}, {_quote(path)}, {_quote(query)}, {_quote(_canonical(body))}]"
    return _hash(asked).hex()  # digest(method, path, query, body)


def _query(text: str) -> list[tuple[str, str]]:
    if "%" in text:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    # the same, at a fifth of its cost: every request pays
    parts = text.replace("+", " ").split("&")
    return [(name, value) for part in parts if part for name, _, value in (part.partition("="),)]


def _canonical(body: bytes) -> str:
    if not body:
        return ""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except (ValueError, RecursionError):  # the latter: nested too deep
        return blake2b(body, digest_size=8).hexdigest()


def choose(number: float, options: Sequence[Any]) -> Any:
    """The option that a draw in [0, 1) points at, each as likely as another."""
    return options[int(number * len(options))]


@dataclass(frozen=True)
class PlannedToxic:
    """One toxic on one link for one attempt. ``attributes`` in the units of its kind."""

    link: str
    kind: str
    stream: str
    attributes: Mapping[str, int]

    @property
    def name(self) -> str:
        return f"windtunnel_{self.kind}_{self.stream}"


class ToxicDraw(Protocol):
    """A toxic of a fault set: on each of its links an attempt has it with that chance."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> ToxicSpec: ...
    @property
    def links(self) -> Sequence[str]: ...
    @property
    def probability(self) -> float: ...


def plan_toxics(
    seed: int,
    toxic_prob: float,
    toxics: Iterable[ToxicSpec],
    episode: str,
    attempt: int,
    named: Iterable[ToxicDraw] = (),
) -> list[PlannedToxic]:
    """The toxics of an attempt.

    By ``toxic_prob`` at most one of ``toxics`` a tool link, links independent, in the catalog's order; then
    those ``named`` by a fault set, each drawn for itself. A link has no toxic of one name twice.
    """
    plan = list(_anonymous(seed, toxic_prob, toxics, episode, attempt))
    for one in named:
        taken = {(toxic.link, toxic.name) for toxic in plan}
        drawn = _named(seed, one, episode, attempt)
        plan += [toxic for toxic in drawn if (toxic.link, toxic.name) not in taken]
    return plan


def _anonymous(
    seed: int, toxic_prob: float, toxics: Iterable[ToxicSpec], episode: str, attempt: int
) -> Iterator[PlannedToxic]:
    choices = [(spec, stream) for spec in toxics for stream in spec.streams]
    for link in TOOL_LINKS:
        key = (seed, episode, attempt, link.name, "", 0, 0)
        if draw(*key, "toxic") < toxic_prob:
            spec, stream = choose(draw(*key, "toxic-kind"), choices)
            yield PlannedToxic(link.name, spec.kind, stream, dict(spec.attributes))


def _named(seed: int, one: ToxicDraw, episode: str, attempt: int) -> Iterator[PlannedToxic]:
    for link in one.links:
        key = (seed, episode, attempt, link, "", 0, 0)
        if draw(*key, f"{one.id}:toxic") < one.probability:
            stream = choose(draw(*key, f"{one.id}:toxic-stream"), one.spec.streams)
            yield PlannedToxic(link, one.spec.kind, stream, dict(one.spec.attributes))


@dataclass(frozen=True)
class PlannedError:
    kind: str
    status: int


def plan_error(
    seed: int,
    error_prob: float,
    episode: str,
    attempt: int,
    link: str,
    fingerprint: str,
    call: int,
    try_: int,
) -> PlannedError | None:
    """The HTTP error that the gateway gives this try instead of forwarding it, or None."""
    key = (seed, episode, attempt, link, fingerprint, call, try_)
    if draw(*key, "error") >= error_prob:
        return None
    kind, status = choose(draw(*key, "error-kind"), ERROR_KINDS)
    return PlannedError(kind, status)
