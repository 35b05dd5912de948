"""What all faults of the context have in common: a request's conversation, read and written. Pure."""

from __future__ import annotations

import random
from typing import Any

from windtunnel.dialects.conversation import Conversation, read_conversation
from windtunnel.faults.base import Act, Miss, Try, evidence_text


def conversation_of(tried: Try) -> Conversation | Miss:
    """The request's conversation; a miss if it holds none."""
    try:
        return read_conversation(tried.request, tried.dialect)
    except ValueError:
        return Miss("unreadable")


def rewritten(tried: Try, conversation: Conversation, **evidence: Any) -> Act:
    """Forwards the request with this conversation in place of its own. Long texts of the evidence are cut."""
    body = conversation.body | {"messages": conversation.messages}
    evidence = {key: evidence_text(item) if isinstance(item, str) else item for key, item in evidence.items()}
    return Act(request=tried.request.with_json(body), evidence=evidence)


def random_for(tried: Try, purpose: str) -> random.Random:
    """Random numbers for that purpose, seeded by the schedule's keyed draw."""
    return random.Random(tried.chance(purpose))
