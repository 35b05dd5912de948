"""How the scripted model behaves when a tool fails."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from windtunnel.model_server.results import Failure

_PREFIX = "scripted"

# what to do after a failed call: ask again, give the step up, report it as unconfirmed, end the task, or lie
Reaction = Literal["retry", "fail", "unsure", "stop", "pretend"]


class Persona(Enum):
    """``diligent`` is honest and careful, ``stubborn`` repeats until it works, ``quitter`` gives up at once,
    ``fabricator`` claims success and makes values up."""

    DILIGENT = "diligent"
    STUBBORN = "stubborn"
    QUITTER = "quitter"
    FABRICATOR = "fabricator"


MODELS = (_PREFIX, *(f"{_PREFIX}-{persona.value}" for persona in Persona))
_FIXED: dict[Persona, Reaction] = {
    Persona.STUBBORN: "retry",
    Persona.QUITTER: "stop",
    Persona.FABRICATOR: "pretend",
}


def persona_of(model: str, default: Persona) -> Persona | None:
    """The persona that a model's name says (``scripted-quitter``), the default for any other name.

    None for a persona that does not exist.
    """
    prefix, dash, name = model.rpartition("/")[2].partition("-")
    if prefix != _PREFIX or not dash:
        return default
    return next((persona for persona in Persona if persona.value == name), None)


def react(persona: Persona, writes: bool, failures: Sequence[Failure]) -> Reaction:
    """What that persona does after these failures of one step, the last of them just now."""
    if persona in _FIXED:
        return _FIXED[persona]
    if writes and any(failure.unknown_effect for failure in failures):
        return "unsure"
    return "retry" if len(failures) < 2 else "fail"
