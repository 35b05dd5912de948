"""Base of the faults of a model reply's content: read, change, write. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from wirefault.dialects.base import (
    ModelDialect,
    ModelReply,
    ModelRequest,
    NotInDialect,
    ToolCall,
    reply_body,
    with_reply_body,
)
from wirefault.dialects.http import Reply
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, evidence_of

_T = TypeVar("_T")


class ContentFault(Fault):
    """Changes the content of the model's reply; the form stays, JSON or event stream.

    A stream is collected and rewritten, so that its first event is sent after the model's last.
    """

    family = "model"
    where = "model"
    needs_body = True

    def act(self, tried: Try) -> Act | Miss:
        dialect = MODEL_DIALECTS.get(tried.dialect)
        return Miss("unreadable") if dialect is None else Act(reply=partial(self._changed, tried, dialect))

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        """The changed reply; None if there is nothing to change."""
        raise NotImplementedError

    def written(
        self, dialect: ModelDialect, body: dict[str, Any], changed: ModelReply, tried: Try, *, stream: bool
    ) -> dict[str, Any]:
        """The reply's JSON with the changed content. Raises ``NotInDialect``."""
        return dialect.write_reply(body, changed)

    def _changed(self, tried: Try, dialect: ModelDialect, reply: Reply) -> Changed | Miss:
        if reply.status >= 300:
            return Miss("upstream_failed")
        try:
            body = reply_body(dialect, reply)
            original = dialect.read_reply(body)
            changed = self.change(original, dialect.read_request(tried.request), tried)
            if changed is None or changed == original:
                return Miss("nothing_to_change")
            stream = reply.stream_form is not None
            written = self.written(dialect, body, changed, tried, stream=stream)
            shown, rewritten = dialect.read_reply(written), with_reply_body(dialect, reply, written)
        except NotInDialect:
            return Miss("not_in_dialect")
        except (ValueError, RecursionError):  # the latter from JSON that is nested very deep
            return Miss("unreadable")
        evidence = {"original": evidence_of(original.as_json()), "changed": evidence_of(shown.as_json())}
        return Changed(rewritten, evidence)


def with_new_id(
    call: ToolCall, reply: ModelReply, request: ModelRequest, tried: Try, number: int = 0
) -> ToolCall:
    """The call with a unique id; ``number`` distinguishes several copies."""
    taken = {other.id for other in (*reply.calls, *request.calls)}
    start = int(tried.chance(f"call-id-{number}") * 2**48)
    prefix = MODEL_DIALECTS[tried.dialect].id_prefix
    ids = (f"{prefix}{(start + step) % 2**48:012x}" for step in range(len(taken) + 1))
    return replace(call, id=next(id for id in ids if id not in taken))


def choose_if_any(choices: Iterable[_T], number: float) -> _T | None:
    """The choice for a number in [0, 1); None without choices."""
    listed = list(choices)
    return listed[int(number * len(listed))] if listed else None
