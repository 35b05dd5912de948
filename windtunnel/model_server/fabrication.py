"""The fabricator's invented results: plausible, and the same for the same seed."""

from __future__ import annotations

import hashlib
from typing import Any

from windtunnel.model_server.asking import asked_values
from windtunnel.model_server.lexicon import attributes, words
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.toolspec import Step

_NAMES = ("Alex Moreau", "Sam Keller", "Jo Lindqvist", "Kim Rossi")
_TEXTS = ("See you soon", "All is well", "As agreed", "A fine day")


def fabricate(step: Step, seed: int, index: int) -> Any:
    """Made-up data for a step whose call failed; for a write, that it worked."""
    digest = hashlib.blake2b(
        f"{seed}/{index}/{step.text}".encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    drawn = int.from_bytes(digest)
    if step.tool.writes:
        return {"status": "ok"}
    senses = {sense for word in words(step.text) for sense in attributes(word)}
    kinds = {role_of(param, step.tool).kind for param in step.tool.params}
    if "expression" in kinds:
        return {"result": 17 + drawn % 883}
    if "language" in kinds and "place" not in kinds and "query" not in kinds:
        return {"translated_text": _TEXTS[drawn % len(_TEXTS)]}
    if "currency" in kinds or "unit" in kinds:
        return {"result": round(drawn % 90000 / 100 + 3, 2)}
    if "place" in kinds or "temperature" in senses:
        return {
            "temp": round(drawn % 240 / 10 + 4, 1),
            "humidity": 40 + drawn % 50,
            "units": "celsius",
            "wind": drawn % 12,
            "description": "partly cloudy",
        }
    return _by_question(step, drawn, senses)


def _by_question(step: Step, drawn: int, senses: set[str]) -> Any:
    if "year" in senses:
        return {"year": 1950 + drawn % 70}
    if senses & {"height", "population", "distance", "weight", "price", "amount", "quantity", "balance"}:
        sense = sorted(
            senses & {"height", "population", "distance", "weight", "price", "amount", "quantity", "balance"}
        )[0]
        return {sense: 12 + drawn % 700, "unit": "m" if sense == "height" else None}
    if senses & {"author", "director", "sender"}:
        return {sorted(senses & {"author", "director", "sender"})[0]: _NAMES[drawn % len(_NAMES)]}
    made: dict[str, Any] = {"text": _TEXTS[drawn % len(_TEXTS)]}
    return made if asked_values(step.text, {}, made) else {"result": drawn % 100}
