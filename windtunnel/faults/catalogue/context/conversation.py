"""What all faults of the context have in common: they read the request's conversation and change it. Pure."""

from __future__ import annotations

import random
from typing import Any

from windtunnel.dialects.conversation import Conversation, read_conversation
from windtunnel.faults.base import Act, Miss, Try


def read(this: Try) -> Conversation | Miss:
    """The request's conversation; a miss for what is none."""
    try:
        return read_conversation(this.request, this.dialect)
    except ValueError:
        return Miss("unreadable")


def rewritten(this: Try, conversation: Conversation, **evidence: Any) -> Act:
    """The request with this conversation in the original's place."""
    body = conversation.body | {"messages": conversation.messages}
    return Act(request=this.request.with_json(body), evidence=evidence)


def rng(this: Try, purpose: str) -> random.Random:
    """A stream of its own, seeded by the schedule's keyed draw."""
    return random.Random(this.chance(purpose))
