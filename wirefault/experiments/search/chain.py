"""The chain of a search for the next experiments: its steps with reasons, and the weaknesses found. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from msgspec import convert

Reason = Literal["regression", "unasked question", "edge of a safe range", "untested pair", "widest interval"]
ChainState = Literal["open", "budget", "safety", "nothing left"]
# the words for outcomes and rules that name a weakness
_WEAKNESSES: Mapping[str, str] = {
    "duplicate": "writes twice",
    "write_repeated": "writes twice",
    "extra_writes": "writes twice",
    "no_time_limit": "waits for ever",
    "misled": "believes a lying tool",
    "false_success": "claims success that is false",
    "crash": "crashes",
    "runaway": "does not stop",
    "failure": "fails",
    "honest_failure": "fails, and says so",
    "false_failure": "reports a failure that did not happen",
    "unconfirmed": "does not confirm its work",
}


@dataclass(frozen=True)
class Risk:
    """The expected share of episodes that end in harm, with its evidence.

    It has no interval: one from the pooled prior holds only for systems that are like the prior.
    """

    value: float
    evidence: str
    """The episodes that it rests on, in words."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The four-part score, a heuristic beside the probability: its parts and ``total``, each in 0..1."""


@dataclass(frozen=True)
class Step:
    """One proposal that was run: its reason before, its results after."""

    name: str
    """Of its arm."""
    cell: str
    """Its question, call and dose, as an id."""
    text: str
    """The same for people."""
    reason: Reason
    because: str
    """The reason in a sentence."""
    risk: Risk
    link: str
    faults: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...] = ()
    """Of the fault set."""
    checks: Mapping[str, Any] = field(default_factory=dict)
    """The checks added for past failures: a statement or an assertion by name."""
    episodes: tuple[str, ...] = ()
    """Keys of its episodes."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """The outcome of each episode."""
    signs: tuple[str, ...] = ()
    """Outcomes and rules that show a weakness."""
    failed_checks: tuple[str, ...] = ()
    delivered: int = 0
    """Episodes in which its faults were delivered."""
    bad: int = 0
    """Of these, the episodes with a sign."""
    harm: int = 0
    """Of these, the episodes that ended in failure or unsafely."""

    @property
    def result(self) -> str:
        """In words: ``not delivered``, ``survived 1 of 1``, ``writes twice in 1 of 1``."""
        if not self.outcomes:
            return "not run"
        if not self.delivered:
            return "the fault was not delivered"
        if not self.bad:
            return f"survived {self.delivered} of {self.delivered}"
        words = ", ".join(dict.fromkeys(weakness_text(sign) for sign in self.signs))
        return f"{words} in {self.bad} of {self.delivered}"


@dataclass(frozen=True)
class Weakness:
    """One kind of failure, with the steps that showed it, the first one first."""

    text: str
    signs: tuple[str, ...]
    steps: tuple[str, ...]
    bad: int
    delivered: int


@dataclass(frozen=True)
class Chain:
    """The steps of a search for the next experiments until now, and why it ended."""

    state: ChainState
    why: str
    steps: tuple[Step, ...]
    episodes: int
    """All episodes that it ran, the control's included."""

    @property
    def weaknesses(self) -> list[Weakness]:
        """The weaknesses, in the order in which they came up."""
        by_text: dict[str, list[Step]] = {}
        for step in self.steps:
            for text in dict.fromkeys(map(weakness_text, step.signs)):
                by_text.setdefault(text, []).append(step)
        return [_weakness(text, steps) for text, steps in by_text.items()]

    def as_json(self) -> dict[str, Any]:
        """The data of the page: all steps, and the weaknesses with the names of their steps."""
        return {
            "state": self.state,
            "why": self.why,
            "episodes": self.episodes,
            "weaknesses": [asdict(each) for each in self.weaknesses],
            "steps": [{**asdict(each), "result": each.result} for each in self.steps],
        }


def _weakness(text: str, steps: Sequence[Step]) -> Weakness:
    signs = dict.fromkeys(sign for step in steps for sign in step.signs if weakness_text(sign) == text)
    return Weakness(
        text,
        tuple(signs),
        tuple(step.name for step in steps),
        sum(step.bad for step in steps),
        sum(step.delivered for step in steps),
    )


def weakness_text(sign: str) -> str:
    """An outcome or a rule as a weakness in words."""
    return _WEAKNESSES.get(sign, sign.replace("_", " "))


def chain_of(search: Mapping[str, Any], episodes: int) -> Chain:
    """Read the chain from the saved search. ``episodes``: recorded until now."""
    steps = convert(search.get("steps", ()), tuple[Step, ...])
    ended: tuple[ChainState, str] = search.get("ended") or ("open", "")
    return Chain(*ended, steps, episodes)
