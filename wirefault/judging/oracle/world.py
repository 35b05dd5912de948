"""The world axis: what is there in the end, held against what was asked for; flags tell its history. Pure.

Precedence where several apply: ``unknown``, ``duplicated``, ``wrong``, ``lost``, ``extra``. Unknown comes
first because nothing else can be said of a world that could not be read or may still change. A duplicate
comes next because the outcome ``duplicate`` does: it is the harm that retries do, and must not hide behind
another effect that is missing. Then what is missing, with (``wrong``) or without (``lost``) something in
its place, before what is merely too much. What must not be (``none_of``) may not be at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wirefault.judging.oracle.assignment import (
    EffectInWorld,
    EffectRow,
    assign,
    in_log,
    matches,
    wrong_fields,
)
from wirefault.judging.oracle.expect import ExpectedEffect, Oracle
from wirefault.judging.oracle.final_state import FinalState, final_state

World = Literal["as_asked", "duplicated", "lost", "wrong", "extra", "unknown", "not_applicable"]
WorldFlag = Literal["repaired", "unasked"]
_WORST_FIRST: tuple[World, ...] = (
    *("duplicated", "unknown", "wrong", "lost", "extra", "as_asked", "not_applicable"),
)
FINE_WORLDS: frozenset[World] = frozenset({"as_asked", "not_applicable"})


@dataclass(frozen=True)
class WrongEffect:
    """An effect in the place of one that was asked for, and those of its fields that are not as asked."""

    expected: ExpectedEffect
    effect: EffectInWorld
    fields: list[str]


@dataclass(frozen=True)
class WorldJudgement:
    """The axis, and in words what led to it.

    ``flags``: ``repaired``, something was wrong on the way and was put right; ``unasked``, something was done
    that nobody had asked for. ``repeated``: of what was done too often, all. ``wrong_effects``: what stands
    in the place of what was asked for, if nothing else is wrong; else empty.
    """

    axis: World
    why: str = ""
    flags: frozenset[WorldFlag] = frozenset()
    repeated: tuple[EffectRow, ...] = ()
    wrong_effects: tuple[WrongEffect, ...] = ()


def judge_world(oracle: Oracle, effects: Sequence[EffectRow] | None, settled: bool) -> WorldJudgement:
    """``effects``: each a ``core.worlds.RecordedEffect`` as a dict; None if they could not be read."""
    if effects is None:
        return WorldJudgement("unknown", "the world could not be read")
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    if not effects and not oracle.effects:
        return WorldJudgement("not_applicable")
    if oracle.in_order and _is_in_order(oracle.effects, in_log(effects)):
        state = FinalState(in_log(effects), [])  # done step by step as asked, creations undone as asked too
    else:
        state = final_state(oracle.effects, effects)
    return _Comparison(oracle, state, in_log(effects)).judgement()


def combined(judgements: Sequence[WorldJudgement]) -> WorldJudgement:
    """One judgement of several worlds: the worst, which no other makes good. At least one."""
    worst = min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.axis))
    flags = frozenset[WorldFlag]().union(*(judgement.flags for judgement in judgements))
    others_fine = all(each is worst or each.axis in FINE_WORLDS for each in judgements)
    return replace(worst, flags=flags, wrong_effects=worst.wrong_effects if others_fine else ())


class _Comparison:
    """The state that is there, held against the oracle. ``log``: all that was ever done."""

    def __init__(self, oracle: Oracle, state: FinalState, log: Sequence[EffectInWorld]) -> None:
        self._oracle, self._state = oracle, state
        expected, effects = oracle.effects, state.effects
        taken = assign(expected, effects)
        self._missing = [slot for index, slot in enumerate(expected) if index not in taken]
        assigned = set(taken.values())
        left = [effect for index, effect in enumerate(effects) if index not in assigned]
        self._again = [effect for effect in left if self._is_asked_for(effect)]
        others = [effect for effect in left if not self._is_asked_for(effect)]
        self._wrong = _paired(self._missing, others)
        in_place = {wrong.effect for wrong in self._wrong}
        self._extra = [effect for effect in others if effect not in in_place]
        self._forbidden = [effect for effect in log if any(matches(rule, effect) for rule in oracle.none_of)]

    def _is_asked_for(self, effect: EffectInWorld) -> bool:
        return any(matches(slot, effect) for slot in self._oracle.effects)

    def judgement(self) -> WorldJudgement:
        axis, why = self._axis()
        only_wrong = not self._extra and not self._forbidden and len(self._wrong) == len(self._missing)
        return WorldJudgement(
            axis,
            why,
            self._flags(axis),
            repeated=tuple(e.row for e in self._state.effects if self._is_asked_for(e))
            if self._again
            else (),
            wrong_effects=tuple(self._wrong) if axis == "wrong" and only_wrong else (),
        )

    def _axis(self) -> tuple[World, str]:
        if self._again:
            return "duplicated", self._how_often()
        if self._wrong:
            return "wrong", f"{_counted(wrong.effect for wrong in self._wrong)} not as asked"
        if self._missing:
            return "lost", f"{', '.join(slot.kind for slot in self._missing)} missing"
        if self._extra:
            return "extra", f"{_counted(self._extra)} not asked for"
        if self._forbidden:
            return "wrong", f"{_counted(self._forbidden)} that must not be"
        if self._oracle.in_order and not _is_in_order(self._oracle.effects, self._state.effects):
            return "wrong", "not in the order asked for"
        return ("as_asked" if self._state.effects or self._oracle.effects else "not_applicable"), ""

    def _how_often(self) -> str:
        """``message_sent 7 times, asked once``."""
        asked = Counter(slot.kind for slot in self._oracle.effects)
        done = Counter(effect.kind for effect in self._state.effects if self._is_asked_for(effect))
        kinds = dict.fromkeys(effect.kind for effect in self._again)
        return "; ".join(
            f"{kind} {times_in_words(done[kind])}, asked {times_in_words(asked[kind])}" for kind in kinds
        )

    def _flags(self, axis: World) -> frozenset[WorldFlag]:
        flags: set[WorldFlag] = set()
        if self._state.undone and axis in FINE_WORLDS:
            flags.add("repaired")
        kinds = {slot.kind for slot in self._oracle.effects}
        if self._extra or self._forbidden or any(effect.kind not in kinds for effect in self._state.undone):
            flags.add("unasked")
        return frozenset(flags)


def _is_in_order(expected: Sequence[ExpectedEffect], effects: Sequence[EffectInWorld]) -> bool:
    """Whether the effects are those expected, one by one."""
    return len(expected) == len(effects) and all(map(matches, expected, effects))


def _paired(missing: Iterable[ExpectedEffect], left: Sequence[EffectInWorld]) -> list[WrongEffect]:
    """For each effect that is missing the one of its kind that is there instead and most like it, if any."""
    free, pairs = list(left), []
    for slot in missing:
        of_kind = [effect for effect in free if effect.kind == slot.kind]
        if of_kind:
            nearest = min(of_kind, key=lambda effect: len(wrong_fields(slot, effect)))
            free.remove(nearest)
            pairs.append(WrongEffect(slot, nearest, wrong_fields(slot, nearest)))
    return pairs


def _counted(effects: Iterable[EffectInWorld]) -> str:
    """``message_sent (3 times), event_created``."""
    counts = Counter(effect.kind for effect in effects)
    return ", ".join(
        kind if count == 1 else f"{kind} ({times_in_words(count)})" for kind, count in counts.items()
    )


def times_in_words(count: int) -> str:
    """``once``, ``2 times``."""
    return "once" if count == 1 else f"{count} times"
