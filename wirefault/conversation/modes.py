"""The failure modes of a conversation, and the draw of one for each message. Pure.

The probabilities and faults are those of the preset ``recovery-lab``. Each possible mode is drawn by itself,
and one of those drawn is chosen at equal chances, so that the true rate of each is below its stated one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from wirefault.core.errors import InputError, nearest
from wirefault.core.identity import choose, draw
from wirefault.faults.sets.conditions import When
from wirefault.faults.sets.fault_set import Entry, FaultSet
from wirefault.faults.sets.presets import preset

PRESET = "recovery-lab"
COOLDOWN_S = 30.0
"""After a failure, a session has none for this long."""
LOOP, LOOP_AFTER = "infinite_loop", 3
"""A loop needs a conversation of this many messages."""
_PASSING = {"service_unavailable", "api_timeout", "rate_limiting", "memory_exhaustion"}
"""Modes that end after three requests to the model: as many as the agent's client makes for one call."""
_REPEATED, _LOOPING = 0.3, 2.0
"""Factors for the mode of the last failure: rarer, but a loop more likely."""


@dataclass(frozen=True)
class Mode:
    """``probability``: the stated chance per message, from 0 to 1; ``faults`` act during the turn."""

    name: str
    probability: float
    faults: FaultSet


@lru_cache(maxsize=1)
def modes() -> Mapping[str, Mode]:
    """Return the modes by name, in the preset's order."""
    return {
        entry.id: Mode(
            entry.id,
            entry.when.probability,
            FaultSet((replace(entry, when=_during_turn(entry)),)),
        )
        for entry in preset(PRESET).faults
    }


def _during_turn(entry: Entry) -> When:
    passing = {"first": 3, "of": "try"} if entry.id in _PASSING else {}
    return entry.when.model_copy(update={"probability": 1.0, **passing})


def mode_named(name: str) -> Mode:
    """Return the mode. Raises ``InputError`` that names the nearest."""
    known = modes()
    if name not in known:
        raise InputError(f"unknown failure mode {name!r}{nearest(name, known)}")
    return known[name]


@dataclass(frozen=True)
class Situation:
    """The circumstances of a draw. ``messages`` counts the session's, this one included.

    ``since_failure``: seconds since the session's last failure, whose mode was ``last``; None without one.
    """

    messages: int = 1
    last: str = ""
    since_failure: float | None = None


@dataclass(frozen=True)
class Odds:
    """``multiplier``: FAILURE_RATE_MULTIPLIER, for every stated probability, up to 1 each."""

    multiplier: float = 1.0
    cooldown_s: float = COOLDOWN_S
    stated: Mapping[str, float] | None = None
    """Replaces the preset's probabilities, by mode."""

    def chances(self, situation: Situation) -> dict[str, float]:
        """Return the chance that each possible mode is drawn; empty during the pause after a failure."""
        if situation.since_failure is not None and situation.since_failure < self.cooldown_s:
            return {}
        stated = self.stated
        if stated is None:
            stated = {name: mode.probability for name, mode in modes().items()}
        chances = {
            name: min(1.0, probability * self.multiplier * self._factor(name, situation))
            for name, probability in stated.items()
            if name != LOOP or situation.messages > LOOP_AFTER
        }
        return {name: chance for name, chance in chances.items() if chance > 0}

    def _factor(self, name: str, situation: Situation) -> float:
        if name != situation.last:
            return 1.0
        return _LOOPING if name == LOOP else _REPEATED

    def rates(self, situation: Situation) -> dict[str, float]:
        """Return the true rate of each mode: drawn, and chosen among those drawn with it."""
        chances = self.chances(situation)
        return {
            name: chance * _mean_share([other for key, other in chances.items() if key != name])
            for name, chance in chances.items()
        }

    def draw(self, seed: int, session: str, turn: int, situation: Situation) -> str:
        """Return the message's mode; empty for none. The same arguments give the same mode."""

        def number(purpose: str) -> float:
            return draw(seed, session, turn, "", "", 0, 0, purpose)

        drawn = [name for name, chance in self.chances(situation).items() if number(name) < chance]
        return choose(number("which mode"), drawn) if drawn else ""


def _mean_share(chances: Sequence[float]) -> float:
    """Return the mean of 1 / (1 + N), where N of these independent events happen."""
    counts = [1.0]
    for chance in chances:
        counts = [
            (counts[n] if n < len(counts) else 0.0) * (1 - chance) + (counts[n - 1] * chance if n else 0.0)
            for n in range(len(counts) + 1)
        ]
    return sum(probability / (1 + n) for n, probability in enumerate(counts))


def decision_diagrams(odds: Odds) -> tuple[str, str]:
    """Return two Mermaid diagrams: whether a message fails, and how its turn ends."""
    lines = [
        f"    D -->|{name} {chance:.3g}| {name}[{name}]"
        for name, chance in odds.chances(Situation(LOOP_AFTER + 1)).items()
    ]
    whether = "\n".join(
        [
            "flowchart TD",
            "    A[message] --> B{FAILURE_MODE or failure_mode?}",
            "    B -->|yes| F[this mode]",
            "    B -->|no| P{PROBABILISTIC_FAILURES?}",
            "    P -->|no| N[no failure]",
            f"    P -->|yes| C{{failed within {odds.cooldown_s:g} s?}}",
            "    C -->|yes| N",
            "    C -->|no| D{draw each mode, choose one}",
            *lines,
            "    D -->|none drawn| N",
        ]
    )
    ends = "\n".join(
        [
            "flowchart TD",
            "    A[mode in force at the gateway] --> B{fault met a request?}",
            "    B -->|no| N[natural answer, failure_injection_applied false]",
            "    B -->|yes| C{a strategy of RECOVERY recovered?}",
            "    C -->|yes| R[success, checkpoint post_recovery]",
            "    C -->|no| D{how did the turn end?}",
            "    D -->|the faulted reply is the answer, or failed| F[failure]",
            "    D -->|no reply in time| T[timeout]",
            "    D -->|exception or limit| E[error]",
        ]
    )
    return whether, ends
