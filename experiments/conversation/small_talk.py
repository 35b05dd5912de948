"""An agent that keeps a conversation with a model, and a person who talks with it."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

_conversation: list[dict[str, str]] = []


def answer(prompt: str, context: Any) -> str:
    """Return the model's reply to the conversation so far; retry once if the model is busy."""
    if context.turn == 1:
        _conversation.clear()
    _conversation.append({"role": "user", "content": prompt})
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "scripted", "messages": _conversation}).encode(),
        {"Content-Type": "application/json"},
    )
    for last in (False, True):
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                text = str(json.load(reply)["choices"][0]["message"]["content"])
            break
        except OSError:
            if last:
                raise
    _conversation.append({"role": "assistant", "content": text})
    return text


def goes_on(conversation: list[dict[str, str]]) -> str | None:
    """Return the person's next message: two requests for something friendly, then none."""
    user_turns = [turn for turn in conversation if turn["role"] == "user"]
    return "Say something friendly in one sentence." if len(user_turns) < 3 else None
