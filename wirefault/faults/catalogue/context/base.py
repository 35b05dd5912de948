"""What all faults of the context have in common: a request's conversation, read and written. Pure."""

from __future__ import annotations

import random
from typing import Any

from wirefault.dialects.conversation import Conversation, read_conversation
from wirefault.faults.base import Act, Fault, Miss, Try, evidence_text


class ContextFault(Fault):
    """Changes the request to the model; its reply is that to the changed request."""

    family = "context"
    where = "model"
    needs_body = True
    can_cause = frozenset({"http_4xx", "http_5xx"})

    def act(self, tried: Try) -> Act | Miss:
        try:
            chat = read_conversation(tried.request, tried.dialect)
        except ValueError:
            return Miss("unreadable")
        return self.change(tried, chat)

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        """Changes the conversation and forwards the request with it."""
        raise NotImplementedError


def rewritten(tried: Try, conversation: Conversation, **evidence: Any) -> Act:
    """Forwards the request with this conversation in place of its own. Long texts of the evidence are cut."""
    evidence = {key: evidence_text(item) if isinstance(item, str) else item for key, item in evidence.items()}
    return Act(request=tried.request.with_json(conversation.as_body()), evidence=evidence)


def random_for(tried: Try, purpose: str) -> random.Random:
    """Random numbers for that purpose, seeded by the schedule's keyed draw."""
    return random.Random(tried.chance(purpose))
