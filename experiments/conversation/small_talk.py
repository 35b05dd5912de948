"""An agent that keeps a conversation with a model, and a person who talks with it."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

_said: list[dict[str, str]] = []


def answer(prompt: str, context: Any) -> str:
    """The model's reply to the conversation so far. A model that is busy is asked once more."""
    if context.turn == 1:
        _said.clear()
    _said.append({"role": "user", "content": prompt})
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "scripted", "messages": _said}).encode(),
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
    _said.append({"role": "assistant", "content": text})
    return text


def goes_on(conversation: list[dict[str, str]]) -> str | None:
    """What the person says next: something friendly is asked for twice, then it is enough."""
    said = [turn for turn in conversation if turn["role"] == "user"]
    return "Say something friendly in one sentence." if len(said) < 3 else None
