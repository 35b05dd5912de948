"""The world axis: what is there in the end, held against what was asked for; flags tell its history. Pure.

Precedence where several apply: ``unknown``, ``duplicated``, ``wrong``, ``lost``, ``extra``. Unknown comes
first because nothing else can be said of a world that could not be read or may still change. A duplicate
comes next because the outcome ``duplicate`` does: it is the harm that retries do, and must not hide behind
another effect that is missing. Then what is missing, with (``wrong``) or without (``lost``) something in
its place, before what is merely too much. What must not be (``none_of``) may not be at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wirefault.judging.oracle.expect import ExpectedEffect, Oracle
from wirefault.judging.oracle.field import field_matches
from wirefault.judging.oracle.pairing import largest_assignment

EffectRow = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class EffectInWorld:
    """One side effect as it counts in the world.

    ``row`` is a ``core.worlds.RecordedEffect`` as a dict, ``place`` its index in the log. ``whole`` is False
    for a deletion of which a part has been put back: it is not what anybody asked for.
    """

    row: EffectRow
    place: int
    whole: bool = True

    @property
    def kind(self) -> str:
        return str(self.row.get("kind"))

    @property
    def fields(self) -> Mapping[str, Any]:
        fields = self.row.get("fields")
        return fields if isinstance(fields, Mapping) else {}


def in_log(rows: Sequence[EffectRow]) -> list[EffectInWorld]:
    """The side effects as they were logged, each for itself."""
    return [EffectInWorld(row, place) for place, row in enumerate(rows)]


def assign(expected: Sequence[ExpectedEffect], effects: Sequence[EffectInWorld]) -> dict[int, int]:
    """The largest assignment of expected effects to actual ones, by index."""
    return largest_assignment(expected, effects, matches)


def matches(expected: ExpectedEffect, effect: EffectInWorld) -> bool:
    """Whether the effect is whole, of the expected kind, and each named field holds what it must."""
    return effect.whole and effect.kind == expected.kind and not wrong_fields(expected, effect)


def wrong_fields(expected: ExpectedEffect, effect: EffectInWorld) -> list[str]:
    """The named fields that do not hold what they must."""
    fields = effect.fields
    return [
        name
        for name, matcher in expected.fields.items()
        if name not in fields or not field_matches(matcher, fields[name])
    ]


_CREATED = "event_created"
_DELETED = "events_deleted"
_TitleAndTime = tuple[str, str | None]


@dataclass(frozen=True)
class FinalState:
    """``effects``: what the log has changed in the world for good, in its order.

    ``undone``: what was done and is no more, because it was deleted or put back.
    """

    effects: list[EffectInWorld]
    undone: list[EffectInWorld]


@dataclass(frozen=True)
class _UsersEvent:
    """An event of the user's own that a deletion took; ``time`` is None where the log does not tell."""

    date: str
    title: str
    time: str | None
    deletion: EffectInWorld

    def is_put_back_by(self, created: EffectInWorld) -> bool:
        fields = created.fields
        same_day = (fields.get("date"), fields.get("title")) == (self.date, self.title)
        return same_day and self.time in (None, fields.get("time"))


@dataclass
class _Calendar:
    """What the log has made of the calendar so far."""

    created: list[EffectInWorld] = field(default_factory=list)
    gone: list[_UsersEvent] = field(default_factory=list)
    undone: list[EffectInWorld] = field(default_factory=list)
    partly_put_back: set[str] = field(default_factory=set)

    def delete(self, deletion: EffectInWorld) -> None:
        """Takes out all of that day: what the log has created there, and what is left is the user's."""
        date = str(deletion.fields.get("date"))
        that_day = [event for event in self.created if event.fields.get("date") == date]
        self.created = [event for event in self.created if event.fields.get("date") != date]
        self.undone += [self._put_back_before(event) or event for event in that_day]
        users = _without(_taken(deletion), that_day)
        self.gone += [_UsersEvent(date, title, time, deletion) for title, time in users]

    def _put_back_before(self, created: EffectInWorld) -> EffectInWorld | None:
        """The deletion that was undone for a time, where the event is one of the user's own."""
        return next((event.deletion for event in self.gone if event.is_put_back_by(created)), None)

    def puts_back(self, created: EffectInWorld) -> bool:
        """Whether it is an event of the user's own that was deleted."""
        return self._put_back_before(created) is not None

    def put_back(self, created: EffectInWorld) -> None:
        """Takes it for the user's own event, which is there again."""
        event = next(event for event in self.gone if event.is_put_back_by(created))
        self.gone.remove(event)
        self.created.remove(created)
        self.partly_put_back.add(event.date)
        if event.deletion not in self.undone:
            self.undone.append(event.deletion)

    def deletions(self) -> list[EffectInWorld]:
        """One for each day on which events of the user's own are gone."""
        days = dict.fromkeys(event.date for event in self.gone)
        return [self._deletion(day) for day in days]

    def _deletion(self, day: str) -> EffectInWorld:
        events = [event for event in self.gone if event.date == day]
        last = events[-1].deletion
        fields = {"date": day, "count": len(events), "titles": [event.title for event in events]}
        times = [event.time for event in events]
        known = {} if None in times else {"times": times}
        row = {**last.row, "fields": fields | known}
        return replace(last, row=row, whole=day not in self.partly_put_back)


def final_state(expected: Sequence[ExpectedEffect], rows: Sequence[EffectRow]) -> FinalState:
    """``expected``: an event that is asked for counts as created, even if it is one that was deleted."""
    calendar = _Calendar()
    lasting = []
    for effect in in_log(rows):
        if effect.kind == _CREATED:
            calendar.created.append(effect)
        elif effect.kind == _DELETED and _tells_what_it_took(effect):
            calendar.delete(effect)
        else:
            lasting.append(effect)
    events = sorted(calendar.created, key=calendar.puts_back)
    asked = set(assign(expected, events).values())
    for index, event in enumerate(events):
        if index not in asked and calendar.puts_back(event):
            calendar.put_back(event)
    effects = [*lasting, *calendar.created, *calendar.deletions()]
    return FinalState(sorted(effects, key=lambda effect: effect.place), calendar.undone)


def _tells_what_it_took(deletion: EffectInWorld) -> bool:
    titles = deletion.fields.get("titles")
    return isinstance(deletion.fields.get("date"), str) and isinstance(titles, list)


def _without(taken: Sequence[_TitleAndTime], created: Sequence[EffectInWorld]) -> list[_TitleAndTime]:
    """What was taken besides these events. Of two of one title the one at the same time is meant."""
    same = Counter[_TitleAndTime](
        (str(event.fields.get("title")), str(event.fields.get("time"))) for event in created
    )
    others: list[_TitleAndTime] = []
    for event in taken:
        if same[event]:
            same[event] -= 1
        else:
            others.append(event)
    titles = Counter(title for title, _ in same.elements())
    users: list[_TitleAndTime] = []
    for title, time in others:
        if titles[title]:
            titles[title] -= 1
        else:
            users.append((title, time))
    return users


def _taken(deletion: EffectInWorld) -> list[_TitleAndTime]:
    """Title and time of each event that the deletion took."""
    titles, times = deletion.fields["titles"], deletion.fields.get("times")
    if isinstance(times, list) and len(times) == len(titles):
        return [(str(title), str(time)) for title, time in zip(titles, times, strict=True)]
    return [(str(title), None) for title in titles]


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
