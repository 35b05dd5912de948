"""What all faults of a model's event stream have in common: they see it event by event."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from wirefault.dialects.base import TOKENS, EventKind, ModelDialect
from wirefault.dialects.http import Ending, Step
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.base import Act, Fault, Miss, Try, WhyNot

F = TypeVar("F", bound="StreamFault")


class Editor(Generic[F]):
    """Changes one stream. ``seen`` counts its events so far, ``tokens`` those that carry tokens."""

    def __init__(self, fault: F, dialect: ModelDialect, tried: Try) -> None:
        self.fault = fault
        self.dialect = dialect
        self.tried = tried
        self.ending: Ending = "keep"
        self.why_not: WhyNot | None = "nothing_to_change"
        self.evidence: dict[str, Any] = {}
        self.seen = 0
        self.tokens = 0

    def event(self, data: bytes) -> Sequence[Step]:
        kind = self.dialect.kind_of(data)
        self.seen += 1
        self.tokens += kind in TOKENS
        return self.edit(data, kind)

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        """What is sent for the event, which is counted already."""
        raise NotImplementedError

    def end(self) -> Sequence[Step]:
        return ()

    def changed(self, **evidence: Any) -> None:
        """Notes that the stream is no longer what it was."""
        self.why_not = None
        self.evidence |= evidence


class StreamFault(Fault):
    """Acts on event streams as they go by. A reply that is no event stream stays as it is."""

    family = "model"
    where = "model"
    editor: ClassVar[type[Editor[Any]]]

    def act(self, tried: Try) -> Act | Miss:
        dialect = MODEL_DIALECTS.get(tried.dialect)
        if dialect is None:
            return Miss("unreadable")
        return Act(events=partial(self.editor, self, dialect, tried))
