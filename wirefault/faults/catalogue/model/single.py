"""Faults of single events of a model's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from wirefault.dialects.base import EventKind
from wirefault.dialects.http import Step, data_of, with_data
from wirefault.faults.base import evidence_text
from wirefault.faults.catalogue.model.editor import Editor, StreamFault


class _Nth(StreamFault):
    """Changes one of the events that carry a piece of the answer."""

    nth: int = Field(1, ge=1, description="which of the events with text or with a tool call's arguments")

    def instead(self, data: bytes) -> bytes:
        """What is sent for the event."""
        raise NotImplementedError


class _NthEditor(Editor[_Nth]):
    pieces = 0

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        has_piece = kind == "text" or bool(self.dialect.arguments_in(data))
        self.pieces += has_piece
        if not has_piece or self.pieces != self.fault.nth:
            return (data,)
        sent = self.fault.instead(data)
        self.changed(event=self.seen, original=evidence_text(data), changed=evidence_text(sent))
        return (sent,)


class DuplicateEvent(_Nth):
    """One event of the stream comes twice.

    A client that joins the pieces, as most do, has a piece of the text or of a tool call's arguments twice;
    arguments then are no JSON. Nothing reports it. The last event of OpenAI's Responses API has all of the
    reply anew: a client that takes it from there sees nothing.
    """

    name = "duplicate_event"
    editor = _NthEditor

    def instead(self, data: bytes) -> bytes:
        return data + data


class CorruptEvent(_Nth):
    """One event of the stream is damaged; those before and after it are whole.

    Its JSON is cut in half, replaced by words, or has a byte in it that is no UTF-8; or its data is JSON
    of a shape that no client expects.
    """

    name = "corrupt_event"
    can_cause = frozenset({"bad_reply"})
    editor = _NthEditor

    kind: Literal["cut", "words", "bytes", "shape"] = Field("cut", description="the damage")

    def instead(self, data: bytes) -> bytes:
        payload = data_of(data)
        half = len(payload) // 2
        damaged = {
            "cut": payload[:half],
            "words": b"upstream connect error",
            "bytes": payload[:half] + b"\xff" + payload[half:],
            "shape": b"[]",
        }
        return with_data(data, damaged[self.kind])
