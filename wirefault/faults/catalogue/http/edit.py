"""What the HTTP faults have in common: looking into replies, changing them, and evidence of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wirefault.dialects.http import Reply
from wirefault.faults.base import Changed, Miss, Try, evidence_text

# Faults look for nothing deeper: replies of such a shape are attacks, not answers.
_MAX_DEPTH = 48


@dataclass(frozen=True)
class JsonEdit:
    """The JSON value that a reply gets, and the evidence of what was done."""

    value: Any
    evidence: Mapping[str, Any] = field(default_factory=dict)


def edit_json(reply: Reply, edit: Callable[[Any], JsonEdit | Miss]) -> Changed | Miss:
    """The reply with its JSON changed; ``unreadable`` if it holds none."""
    try:
        value = reply.json()
    except ValueError:
        return Miss("unreadable")
    try:
        done = edit(value)
        return done if isinstance(done, Miss) else Changed(reply.with_json(done.value), done.evidence)
    except RecursionError:  # It could be read, but is too deep to be written again.
        return Miss("unreadable")


def replace_reply(before: Reply, after: Reply, **evidence: Any) -> Changed | Miss:
    """``after`` in the place of ``before``, with both bodies as evidence; a miss if they are equal."""
    if after == before:
        return Miss("nothing_to_change")
    if after.body != before.body:
        evidence |= {"original": evidence_text(before.body), "changed": evidence_text(after.body)}
    return Changed(after, evidence)


def with_type(reply: Reply, content_type: str) -> Reply:
    """The reply with another Content-Type."""
    others = tuple((name, value) for name, value in reply.headers if name.lower() != "content-type")
    return replace(reply, headers=(("Content-Type", content_type), *others))


def has_body(tried: Try, reply: Reply) -> bool:
    """Whether the client reads a body of this reply at all."""
    return tried.request.method != "HEAD" and reply.status not in (204, 304) and reply.status >= 200


def objects_in(
    value: Any, path: tuple[str, ...] = (), depth: int = _MAX_DEPTH
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object in a JSON value with the field names that lead to it. Lists add no name."""
    children: Iterable[tuple[tuple[str, ...], Any]] = ()
    if isinstance(value, dict):
        yield path, value
        children = (((*path, name), inner) for name, inner in value.items())
    elif isinstance(value, list):
        children = ((path, item) for item in value)
    for inner_path, inner in children if depth else ():
        yield from objects_in(inner, inner_path, depth - 1)
