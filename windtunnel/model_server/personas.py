"""How the scripted model behaves when a tool fails."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from windtunnel.model_server.results import Failure

PREFIX = "scripted"


class Persona(Enum):
    """``diligent`` is honest and careful, ``stubborn`` repeats until it works, ``quitter`` gives up at once,
    ``fabricator`` claims success and makes values up."""

    DILIGENT = "diligent"
    STUBBORN = "stubborn"
    QUITTER = "quitter"
    FABRICATOR = "fabricator"


MODELS = (PREFIX, *(f"{PREFIX}-{persona.value}" for persona in Persona))


class Reaction(Enum):
    """What to do after a failed call."""

    RETRY = "retry"
    FAIL = "fail"
    UNSURE = "unsure"
    STOP = "stop"
    PRETEND = "pretend"


def persona_of(model: str) -> Persona | None:
    """The persona of a model name (``scripted`` alone is diligent); None for a name that is not ours."""
    if model == PREFIX:
        return Persona.DILIGENT
    return next((each for each in Persona if model == f"{PREFIX}-{each.value}"), None)


def react(persona: Persona, writes: bool, failures: Sequence[Failure]) -> Reaction:
    """What that persona does after these failures of one step, the last of them just now."""
    if persona is Persona.STUBBORN:
        return Reaction.RETRY
    if persona is Persona.QUITTER:
        return Reaction.STOP
    if persona is Persona.FABRICATOR:
        return Reaction.PRETEND
    if writes and any(failure.unknown_effect for failure in failures):
        return Reaction.UNSURE
    return Reaction.RETRY if len(failures) < 2 else Reaction.FAIL
