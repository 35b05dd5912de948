"""What the HTTP faults have in common: looking into replies, changing them, and evidence of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.dialects.http import Ending, RawReply, Reply, head_bytes
from windtunnel.faults.base import Changed, Miss, Try

MAX_KEPT = 4096
# beyond that nothing is looked for: replies of such a shape are attacks, not answers
MAX_DEPTH = 48
MAX_FIELDS = 2000


@dataclass(frozen=True)
class Edit:
    """A JSON value as it should be now, and the evidence of what was done."""

    value: Any
    evidence: Mapping[str, Any] = field(default_factory=dict)


def edited(reply: Reply, edit: Callable[[Any], Edit | Miss]) -> Changed | Miss:
    """The reply with its JSON changed; ``unreadable`` where it holds none."""
    try:
        value = reply.json()
    except ValueError:
        return Miss("unreadable")
    try:
        found = edit(value)
        return found if isinstance(found, Miss) else Changed(reply.with_json(found.value), found.evidence)
    except RecursionError:  # read, but too deep to be written again
        return Miss("unreadable")


def changed(before: Reply, after: Reply, **evidence: Any) -> Changed | Miss:
    """``after``, unless it is what was there; with both bodies as evidence."""
    if after == before:
        return Miss("nothing_to_change")
    bodies = {} if after.body == before.body else {"original": text(before.body), "changed": text(after.body)}
    return Changed(after, {**evidence, **bodies})


def with_type(reply: Reply, content_type: str) -> Reply:
    others = tuple((name, value) for name, value in reply.headers if name.lower() != "content-type")
    return replace(reply, headers=(("Content-Type", content_type), *others))


def has_body(this: Try, reply: Reply) -> bool:
    """Whether the client reads a body at all."""
    return this.request.method != "HEAD" and reply.status not in (204, 304) and reply.status >= 200


def started(reply: Reply, at: int, ending: Ending) -> RawReply:
    """The header block, which claims the whole length (at least 1), and that many bytes of the body."""
    head = head_bytes(reply, max(len(reply.body), 1))
    return RawReply((head + reply.body[:at],), ending, reply.status)


def text(body: bytes) -> str:
    """The first 4 KiB, as text."""
    return body[:MAX_KEPT].decode("utf-8", "replace")


def kept(value: Any) -> Any:
    """The value for the ledger: itself, or the first 4 KiB of its JSON text where it is large or deep."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"
    small = len(shown) <= MAX_KEPT and shown.count("{") + shown.count("[") <= MAX_DEPTH
    return value if small else shown[:MAX_KEPT]


def objects(value: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object in it with the names that lead there; lists are looked through, and not named."""
    return _objects(value, (), MAX_DEPTH)


def _objects(
    value: Any, path: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
    inner = _inner(value, path) if depth else ()
    for way, one in inner:
        yield from _objects(one, way, depth - 1)


def _inner(value: Any, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        return (((*path, name), one) for name, one in value.items())
    return ((path, one) for one in value) if isinstance(value, list) else ()
