"""Oracles: the ground truth of a prompt, and how an episode is held against it. Pure."""

from __future__ import annotations

from windtunnel.judging.oracle.claim import Claim, is_exact_text, judge_claim
from windtunnel.judging.oracle.expect import Oracle, parse_expect
from windtunnel.judging.oracle.flags import is_late, is_misled, is_ungrounded
from windtunnel.judging.oracle.outcome import (
    BEST_FIRST,
    OUTCOMES,
    TONES,
    Axes,
    Outcome,
    OutcomeRow,
    Tone,
    decide,
)
from windtunnel.judging.oracle.value import FilledSlot, Value, ValueJudgement, judge_value
from windtunnel.judging.oracle.world import World, WorldJudgement, judge_world

__all__ = [
    "BEST_FIRST",
    "OUTCOMES",
    "TONES",
    "Axes",
    "Claim",
    "FilledSlot",
    "Oracle",
    "Outcome",
    "OutcomeRow",
    "Tone",
    "Value",
    "ValueJudgement",
    "World",
    "WorldJudgement",
    "decide",
    "is_exact_text",
    "is_late",
    "is_misled",
    "is_ungrounded",
    "judge_claim",
    "judge_value",
    "judge_world",
    "parse_expect",
]
