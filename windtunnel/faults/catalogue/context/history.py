"""Faults of the conversation's order: what the model is shown lacks, repeats or mixes up its messages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.conversation import Conversation, Message, renamed, role_of, set_text, shown, text_of
from windtunnel.faults.base import Act, Fault, Miss, Try
from windtunnel.faults.catalogue.context.conversation import read, rewritten, rng

Units = list[list[Message]]


class ContextFault(Fault):
    """Changes the request to the model; its reply is that to the changed request."""

    family = "context"
    where = "model"
    needs_body = True

    def act(self, this: Try) -> Act | Miss:
        conversation = read(this)
        return conversation if isinstance(conversation, Miss) else self.change(this, conversation)

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        raise NotImplementedError


class TruncateHistory(ContextFault):
    """The model is shown only the end of the conversation.

    System messages stay. With ``keep_pairs`` a tool's result stays with the call that it answers, so that
    the API accepts the request; without, messages are counted one by one, and a result whose call is gone
    is refused by real APIs (400).
    """

    name = "truncate_history"

    keep_last: int | None = Field(None, ge=1, description="units that stay; instead of fraction")
    fraction: float = Field(0.5, ge=0, lt=1, description="share of the units that stays, at least one")
    keep_pairs: bool = Field(True, description="keep tool results with their calls")

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        system, units = talk.split()
        if not self.keep_pairs:
            units = [[message] for unit in units for message in unit]
        keep = max(1, int(len(units) * self.fraction)) if self.keep_last is None else self.keep_last
        if keep >= len(units):
            return Miss("nothing_to_change")
        before = len(talk.messages)
        talk.with_units(system, units[-keep:])
        return rewritten(this, talk, messages=before, left=len(talk.messages))


class ReorderHistory(ContextFault):
    """The conversation's messages come in another order.

    The first message after the system's and a last one of the user's keep their places, and a tool's
    result stays with its call: the API accepts the request.
    """

    name = "reorder_history"

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        system, units = talk.split()
        last = len(units) - 1 if units and role_of(units[-1][-1]) == "user" else len(units)
        middle = units[1:last]
        mixed = list(middle)
        rng(this, "order").shuffle(mixed)
        if mixed == middle:
            mixed = middle[1:] + middle[:1]
        if mixed == middle:
            return Miss("nothing_to_change")
        order = [next(i for i, one in enumerate(middle) if one is unit) + 1 for unit in mixed]
        talk.with_units(system, units[:1], mixed, units[last:])
        return rewritten(this, talk, order=order)


class DropMessage(ContextFault):
    """One message is missing from the conversation.

    A call for tools goes with its results, unless ``keep_pairs`` is off: then the one message alone goes,
    which real APIs refuse (400) where it leaves half a pair.
    """

    name = "drop_message"

    which: Literal["random", "oldest", "newest", "system"] = Field("random", description="which one")
    keep_pairs: bool = Field(True, description="drop tool results with their calls")

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        system, units = talk.split()
        pool = system if self.which == "system" else units
        if not self.keep_pairs:
            pool[:] = [[message] for unit in pool for message in unit]
        if len(system) + len(units) < 2 or not pool:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(pool) - 1}.get(self.which, int(this.chance("which") * len(pool)))
        gone = pool.pop(at)
        talk.with_units(system, units)
        text = "\n".join(text_of(message) for message in gone)
        return rewritten(
            this, talk, roles=[role_of(message) for message in gone], original=shown(text), changed=None
        )


class DuplicateMessage(ContextFault):
    """One message stands in the conversation twice, a call for tools with its results (ids of their own)."""

    name = "duplicate_message"

    which: Literal["random", "oldest", "newest"] = Field("random", description="which one")

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        system, units = talk.split()
        if not units:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(units) - 1}.get(self.which, int(this.chance("which") * len(units)))
        twin = [renamed(message, "_again") for message in units[at]]
        talk.with_units(system, units[: at + 1], [twin], units[at + 1 :])
        text = "\n".join(text_of(message) for message in twin)
        return rewritten(this, talk, roles=[role_of(message) for message in twin], duplicated=shown(text))


class StaleContext(ContextFault):
    """What the model is shown lags behind.

    ``older_result``: the newest tool result says what an earlier one said; ``forgotten``: the last
    ``turns`` calls with their results are not there yet.
    """

    name = "stale_context"

    kind: Literal["older_result", "forgotten"] = Field("older_result", description="how it lags")
    turns: int = Field(1, ge=1, description="calls that are forgotten")

    def change(self, this: Try, talk: Conversation) -> Act | Miss:
        return self._older(this, talk) if self.kind == "older_result" else self._forgotten(this, talk)

    def _older(self, this: Try, talk: Conversation) -> Act | Miss:
        results = list(talk.indexed("tool"))
        newest = text_of(results[-1][1]) if results else ""
        earlier = next((m for _, m in reversed(results[:-1]) if text_of(m) != newest), None)
        if earlier is None:
            return Miss("nothing_to_change")
        at, message = results[-1]
        set_text(message, text_of(earlier))
        return rewritten(this, talk, index=at, original=shown(newest), changed=shown(text_of(earlier)))

    def _forgotten(self, this: Try, talk: Conversation) -> Act | Miss:
        system, units = talk.split()
        calls = [at for at, unit in enumerate(units) if len(unit) > 1]
        gone = set(calls[-self.turns :])
        if not gone or len(gone) == len(units):
            return Miss("nothing_to_change")
        text = "\n".join(text_of(message) for at in sorted(gone) for message in units[at])
        talk.with_units(system, [unit for at, unit in enumerate(units) if at not in gone])
        return rewritten(this, talk, forgotten=len(gone), original=shown(text), changed=None)
