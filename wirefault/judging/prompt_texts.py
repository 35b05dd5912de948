"""Prompts that are given as texts, in the place of a file."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.history.events import PromptsSource
from wirefault.judging.prompt_keys import numbered, text_key
from wirefault.judging.prompts import Prompt, Prompts, PromptsError


def prompts_of_texts(texts: Sequence[str]) -> Prompts:
    """The prompts, without oracles. Raises ``PromptsError`` for one that is empty."""
    if not all(text.strip() for text in texts):
        raise PromptsError("--prompt: must be a text that is not empty")
    keys = numbered(map(text_key, texts))
    entries = [
        Prompt(key, text.strip(), None, place)
        for place, (key, text) in enumerate(zip(keys, texts, strict=True), start=1)
    ]
    return Prompts(entries, source=PromptsSource(texts=list(texts)))
