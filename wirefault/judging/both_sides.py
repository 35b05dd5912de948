"""Both sides of a reply that a fault changed: what the upstream said, and what the agent got. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wirefault.history.events import Exchange


@dataclass(frozen=True)
class BothSides:
    """``natural``: the upstream's words, None if it was not asked or said nothing; ``observed``: the agent's
    side, None if it got nothing. ``natural_status``: the upstream's status. ``is_answer``: it was the model's
    last reply.
    """

    natural: str | None
    observed: str | None
    natural_status: int | None
    is_answer: bool


def both_sides(exchanges: Sequence[Exchange], ids: Collection[str] | None = None) -> BothSides | None:
    """Return both sides of the last reply of an attempt that a fault changed; None without one.

    ``ids``: only these faults.
    """
    faulted = [
        exchange
        for exchange in exchanges
        if any(hit.injected and (ids is None or hit.id in ids) for hit in exchange.faults)
    ]
    if not faulted:
        return None
    of_model, last = [each for each in exchanges if each.of_model], faulted[-1]
    reply = last.faulted_reply
    natural = reply.upstream_reply if reply else None
    observed = reply.observed if reply else last.reply_body
    return BothSides(
        None if natural is None else words_in(natural),
        None if observed is None else words_in(observed),
        last.answered,
        of_model[-1:] == [last],
    )


def words_in(reply: str) -> str:
    """Return the words of a chat reply: its text, the answer of its report, or the calls that it makes.

    Any other reply is returned as it is.
    """
    try:
        message = json.loads(reply)["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        reports = [json.loads(call["arguments"]) for call in calls if call["name"] == "Report"]
    except (ValueError, LookupError, TypeError, AttributeError):
        return reply
    if reports:
        return str(reports[0].get("answer", ""))
    if calls:
        return "; ".join(f"{call['name']}({call['arguments']})" for call in calls)
    return str(message.get("content") or "")
