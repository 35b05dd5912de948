"""Faults of the conversation's order: what the model is shown lacks, repeats or mixes up its messages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wirefault.dialects.conversation import Conversation, role_of, set_text, text_of, with_new_ids
from wirefault.faults.base import Act, Miss, Try
from wirefault.faults.catalogue.context.base import ContextFault, random_for, rewritten


class TruncateHistory(ContextFault):
    """The model is shown only the end of the conversation.

    System messages stay. With ``keep_pairs`` a tool's result stays with the call that it answers, so that
    the API accepts the request. Without it messages are counted one by one, and real APIs refuse (400) a
    result whose call is gone.
    """

    name = "truncate_history"

    keep_last: int | None = Field(None, ge=1, description="units that stay; instead of fraction")
    fraction: float = Field(0.5, ge=0, lt=1, description="share of the units that stays, at least one")
    keep_pairs: bool = Field(True, description="keep tool results with their calls")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        if not self.keep_pairs:
            units = [[message] for unit in units for message in unit]
        keep = max(1, int(len(units) * self.fraction)) if self.keep_last is None else self.keep_last
        if keep >= len(units):
            return Miss("nothing_to_change")
        before = len(chat.messages)
        chat.set_units(system, units[-keep:])
        return rewritten(tried, chat, messages=before, left=len(chat.messages))


class ReorderHistory(ContextFault):
    """The conversation's messages come in another order.

    The first message after the system's keeps its place, and so does the last one if it is the user's. A
    tool's result stays with its call: the API accepts the request.
    """

    name = "reorder_history"

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        last = len(units) - 1 if units and role_of(units[-1][-1]) == "user" else len(units)
        middle = units[1:last]
        mixed = list(middle)
        random_for(tried, "order").shuffle(mixed)
        if mixed == middle:
            mixed = middle[1:] + middle[:1]
        if mixed == middle:
            return Miss("nothing_to_change")
        order = [next(at for at, other in enumerate(middle) if other is unit) + 1 for unit in mixed]
        chat.set_units(system, units[:1], mixed, units[last:])
        return rewritten(tried, chat, order=order)


class DropMessage(ContextFault):
    """One message is missing from the conversation.

    Tool calls go with their results. Without ``keep_pairs`` one message alone goes; if half a pair is left,
    real APIs refuse the request (400).
    """

    name = "drop_message"

    which: Literal["random", "oldest", "newest", "system"] = Field("random", description="which message")
    keep_pairs: bool = Field(True, description="drop tool results with their calls")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        pool = system if self.which == "system" else units
        if not self.keep_pairs:
            pool[:] = [[message] for unit in pool for message in unit]
        if len(system) + len(units) < 2 or not pool:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(pool) - 1}.get(self.which, int(tried.chance("which") * len(pool)))
        gone = pool.pop(at)
        chat.set_units(system, units)
        text = "\n".join(text_of(message) for message in gone)
        return rewritten(
            tried, chat, roles=[role_of(message) for message in gone], original=text, changed=None
        )


class DuplicateMessage(ContextFault):
    """One message stands in the conversation twice, tool calls with their results (under new ids)."""

    name = "duplicate_message"

    which: Literal["random", "oldest", "newest"] = Field("random", description="which one")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        if not units:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(units) - 1}.get(self.which, int(tried.chance("which") * len(units)))
        twin = [with_new_ids(message, "_again") for message in units[at]]
        chat.set_units(system, units[: at + 1], [twin], units[at + 1 :])
        text = "\n".join(text_of(message) for message in twin)
        return rewritten(tried, chat, roles=[role_of(message) for message in twin], duplicated=text)


class StaleContext(ContextFault):
    """What the model is shown is not up to date.

    ``older_result``: the newest tool result has the text of an earlier one; ``forgotten``: the last
    ``turns`` calls with their results are missing.
    """

    name = "stale_context"

    kind: Literal["older_result", "forgotten"] = Field("older_result", description="what is out of date")
    turns: int = Field(1, ge=1, description="calls that are forgotten")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        change = self._older if self.kind == "older_result" else self._forgotten
        return change(tried, chat)

    def _older(self, tried: Try, chat: Conversation) -> Act | Miss:
        results = list(chat.indexed("tool"))
        newest = text_of(results[-1][1]) if results else ""
        earlier = next((m for _, m in reversed(results[:-1]) if text_of(m) != newest), None)
        if earlier is None:
            return Miss("nothing_to_change")
        at, message = results[-1]
        set_text(message, text_of(earlier))
        return rewritten(tried, chat, index=at, original=newest, changed=text_of(earlier))

    def _forgotten(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        calls = [at for at, unit in enumerate(units) if role_of(unit[-1]) == "tool"]
        gone = set(calls[-self.turns :])
        if not gone or len(gone) == len(units):
            return Miss("nothing_to_change")
        text = "\n".join(text_of(message) for at in sorted(gone) for message in units[at])
        chat.set_units(system, [unit for at, unit in enumerate(units) if at not in gone])
        return rewritten(tried, chat, forgotten=len(gone), original=text, changed=None)
