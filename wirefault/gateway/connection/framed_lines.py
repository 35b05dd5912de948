"""What faults of lines answer with, as HTTP, for an exchange whose HTTP is made in the gateway. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wirefault.dialects.http import RawReply, Reply, Step, chunk, head_bytes
from wirefault.faults.base import Act, Changed, Miss
from wirefault.faults.plan import Plan

RAW_LINES = "application/x-raw-lines"
_HTTP = b"HTTP/"


def frame_lines(plan: Plan) -> None:
    """Puts HTTP around the bytes of lines that the faults give, so that it is known where they end."""
    for met in plan.met_faults:
        met.act = _framed_act(met.act)


def _framed_act(act: Act) -> Act:
    if isinstance(act.answer, RawReply):
        act = replace(act, answer=_framed(act.answer))
    return act if act.reply is None else replace(act, reply=_framing(act.reply))


def _framing(change: Callable[[Reply], Changed | Miss]) -> Callable[[Reply], Changed | Miss]:
    def framed(reply: Reply) -> Changed | Miss:
        changed = change(reply)
        if isinstance(changed, Changed) and isinstance(changed.reply, RawReply):
            return replace(changed, reply=_framed(changed.reply))
        return changed

    return framed


def _framed(reply: RawReply) -> RawReply:
    first = next((step for step in reply.steps if isinstance(step, bytes) and step), b"")
    if not first and reply.ending == "keep":
        return replace(reply, ending="hang")  # nothing comes of it, and the stream goes on
    if not first or first.startswith(_HTTP):
        return reply
    head = head_bytes(Reply((("Content-Type", RAW_LINES),)), None)
    steps: list[Step] = [chunk(step) if isinstance(step, bytes) else step for step in reply.steps if step]
    end = (chunk(b""),) if reply.ending == "keep" else ()
    return replace(reply, steps=(head, *steps, *end))
