"""Gemini's event streams: chunks in the form of a reply, each with a piece of the candidates' parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wirefault.dialects.event_stream import value_of, write_event
from wirefault.dialects.gemini_contents import ContentPart, parts_of
from wirefault.dialects.json_values import as_object, as_objects, as_text, index_in
from wirefault.dialects.model_messages import pieces

_PLAIN = {"text", "thought"}
_Candidate = dict[str, Any]


def event_candidate(event: bytes) -> _Candidate:
    """The first candidate of an event; empty without one."""
    return next(iter(as_objects(as_object(value_of(event)).get("candidates"))), {})


def collect_chunks(events: Iterable[bytes]) -> dict[str, Any]:
    """The reply that the events amount to. Raises ``ValueError`` for none, and for an error among them."""
    chunks = [value for event in events if isinstance(value := value_of(event), dict)]
    candidates: dict[int, _Candidate] = {}
    for chunk in chunks:
        for part in as_objects(chunk.get("candidates")):
            _add(candidates.setdefault(index_in(part), {"content": {"role": "model"}}), part)
    if not candidates or any("error" in chunk for chunk in chunks):
        raise ValueError("no stream of chunks")
    whole = {key: value for chunk in chunks for key, value in chunk.items()}
    return {**whole, "candidates": [candidates[at] for at in sorted(candidates)]}


def _add(candidate: _Candidate, piece: _Candidate) -> None:
    """Adds what a chunk brings to the candidate so far: pieces of one text are joined."""
    content = as_object(piece.get("content"))
    whole = candidate["content"]
    parts = whole.setdefault("parts", [])
    for part in parts_of(content):
        last = parts[-1] if parts else {}
        if set(part) <= _PLAIN and "text" in last and _alike(last, part):
            parts[-1] = {**last, "text": as_text(last["text"]) + as_text(part.get("text"))}
        elif set(part) != {"text"} or part["text"]:
            parts.append(part)
    whole.update({key: value for key, value in content.items() if key != "parts"})
    candidate.update({key: value for key, value in piece.items() if key != "content"})


def _alike(last: ContentPart, part: ContentPart) -> bool:
    return set(last) <= _PLAIN and bool(last.get("thought")) == bool(part.get("thought"))


def spread_candidates(body: dict[str, Any]) -> Iterator[bytes]:
    """The reply as events. The last of a candidate has an empty text beside the reason for its end."""
    envelope = {key: value for key, value in body.items() if key not in ("candidates", "usageMetadata")}
    usage = {"usageMetadata": body["usageMetadata"]} if "usageMetadata" in body else {}
    for at, candidate in enumerate(as_objects(body.get("candidates"))):
        index = {"index": candidate.get("index", at)}
        content = as_object(candidate.get("content"))
        for piece in (piece for part in parts_of(content) for piece in _cut(part)):
            one = {"content": {**content, "parts": [piece]}, **index}
            yield write_event({"candidates": [one], **envelope})
        last = {**candidate, "content": {**content, "parts": [{"text": ""}]}, **index}
        yield write_event({"candidates": [last], **usage, **envelope})


def _cut(part: ContentPart) -> Iterator[ContentPart]:
    """A plain text in pieces; any other part as it is."""
    if set(part) <= _PLAIN and as_text(part.get("text")):
        yield from ({**part, "text": piece} for piece in pieces(part["text"]))
    else:
        yield part


def break_off(event: bytes, arguments: str) -> bytes:
    """The event up to the place where its empty arguments stand, with those in their place."""
    return event[: event.rindex(b'"args": {}')] + b'"args": ' + arguments.encode("utf-8", "replace")
