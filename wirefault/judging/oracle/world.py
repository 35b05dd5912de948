"""The world axis: the final state against the expected one; flags describe its history. Pure.

Precedence if several apply: ``unknown``, ``duplicated``, ``wrong``, ``lost``, ``extra``. Unknown comes first:
a world that could not be read, or that may still change, allows no other verdict. A duplicate is next,
because retries cause it, and a missing effect must not hide it. Then come missing effects, with (``wrong``)
or without (``lost``) a replacement, and last extra effects. Effects in ``none_of`` must not happen at any
time.

The final state is computed from the log of side effects. A sent message stays sent. Only the calendar can be
repaired: an event that was created and deleted again is not in the final state, nor is the deletion of a
user's event that was created again unchanged. A deletion names the titles of all deleted events, and in newer
histories their times. Events created earlier in the log are the agent's, all others the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wirefault.history.judged_events import World
from wirefault.judging.oracle.expect import ExpectedEffect, Oracle
from wirefault.judging.oracle.matching import Match, largest_assignment, match_field, may_all_fit
from wirefault.judging.oracle.outcome import FINE_WORLDS

EffectRow = Mapping[str, Any]
WorldFlag = Literal[
    "repaired",  # something was wrong for a time and was corrected
    "unasked",  # an effect was not asked for
    "again",  # a later attempt of the runner repeated an effect of an earlier one
]
_WORST_FIRST: tuple[World, ...] = (
    *("duplicated", "unknown", "wrong", "lost", "extra", "as_asked", "not_applicable"),
)
_CREATED = "event_created"
_DELETED = "events_deleted"
_TitleAndTime = tuple[str, str | None]


@dataclass(frozen=True, eq=False)
class EffectInWorld:
    """One side effect as counted in the world."""

    row: EffectRow  # a ``state.effects.RecordedEffect`` as a dict
    place: int  # its index in the log
    task: str  # the prompt, which tells what its texts are about
    whole: bool = True  # False for a partly reverted deletion, which no oracle asks for

    @property
    def kind(self) -> str:
        return str(self.row.get("kind"))

    @property
    def fields(self) -> Mapping[str, Any]:
        fields = self.row.get("fields")
        return fields if isinstance(fields, Mapping) else {}


def _in_log(rows: Sequence[EffectRow], task: str) -> list[EffectInWorld]:
    """The side effects as they were logged."""
    return [EffectInWorld(row, place, task) for place, row in enumerate(rows)]


# fields with the agent's prose; in any other text ``contains`` is a search
_SPOKEN = frozenset({"body"})


def _match(expected: ExpectedEffect, effect: EffectInWorld, literal: bool = False) -> Match:
    """Compare an effect of the expected kind by its named fields; one that is not whole is wrong."""
    if not effect.whole or effect.kind != expected.kind:
        return "wrong"
    matches = {_match_named(expected, effect, name, literal) for name in expected.fields}
    return "wrong" if "wrong" in matches else "unreadable" if "unreadable" in matches else "right"


def _match_named(expected: ExpectedEffect, effect: EffectInWorld, name: str, literal: bool = False) -> Match:
    if name not in effect.fields:
        return "wrong"
    return match_field(
        expected.fields[name], effect.fields[name], literal or name not in _SPOKEN, effect.task
    )


def _matches(expected: ExpectedEffect, effect: EffectInWorld) -> bool:
    """Whether the effect is whole, of the expected kind, and each named field matches."""
    return _match(expected, effect) == "right"


def _wrong_fields(expected: ExpectedEffect, effect: EffectInWorld) -> list[str]:
    """The named fields that do not match."""
    return [name for name in expected.fields if _match_named(expected, effect, name) != "right"]


@dataclass(frozen=True)
class _FinalState:
    effects: list[EffectInWorld]  # that last, in the order of the log
    undone: list[EffectInWorld]  # later deleted or put back


@dataclass(frozen=True)
class _UsersEvent:
    """A deleted event of the user."""

    date: str
    title: str
    time: str | None  # None where the log does not have it
    deletion: EffectInWorld

    def is_put_back_by(self, created: EffectInWorld) -> bool:
        fields = created.fields
        same_day = (fields.get("date"), fields.get("title")) == (self.date, self.title)
        return same_day and self.time in (None, fields.get("time"))


@dataclass
class _Calendar:
    """The calendar after the changes in the log so far."""

    created: list[EffectInWorld] = field(default_factory=list)
    gone: list[_UsersEvent] = field(default_factory=list)
    undone: list[EffectInWorld] = field(default_factory=list)
    partly_put_back: set[str] = field(default_factory=set)

    def delete(self, deletion: EffectInWorld) -> None:
        """Remove all events of that day: some were created in the log, the others are the user's."""
        date = str(deletion.fields.get("date"))
        that_day = [event for event in self.created if event.fields.get("date") == date]
        self.created = [event for event in self.created if event.fields.get("date") != date]
        self.undone += [self._put_back_before(event) or event for event in that_day]
        users = _without(_taken(deletion), that_day)
        self.gone += [_UsersEvent(date, title, time, deletion) for title, time in users]

    def _put_back_before(self, created: EffectInWorld) -> EffectInWorld | None:
        """The deletion that the event undoes, if it is an event of the user."""
        return next((event.deletion for event in self.gone if event.is_put_back_by(created)), None)

    def puts_back(self, created: EffectInWorld) -> bool:
        """Whether it is an event of the user that was deleted."""
        return self._put_back_before(created) is not None

    def put_back(self, created: EffectInWorld) -> None:
        """Count the created event as the user's event, restored."""
        event = next(event for event in self.gone if event.is_put_back_by(created))
        self.gone.remove(event)
        self.created.remove(created)
        self.partly_put_back.add(event.date)
        if event.deletion not in self.undone:
            self.undone.append(event.deletion)

    def deletions(self) -> list[EffectInWorld]:
        """One deletion for each day on which events of the user are deleted."""
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


def _final_state(expected: Sequence[ExpectedEffect], log: Sequence[EffectInWorld]) -> _FinalState:
    """Compute the final state. An expected event counts as created, even if it restores a deleted one."""
    calendar = _Calendar()
    lasting = []
    for effect in log:
        if effect.kind == _CREATED:
            calendar.created.append(effect)
        elif effect.kind == _DELETED and _has_titles(effect):
            calendar.delete(effect)
        else:
            lasting.append(effect)
    events = sorted(calendar.created, key=calendar.puts_back)
    assigned = set(largest_assignment(expected, events, _matches).values())
    for index, event in enumerate(events):
        if index not in assigned and calendar.puts_back(event):
            calendar.put_back(event)
    effects = [*lasting, *calendar.created, *calendar.deletions()]
    return _FinalState(sorted(effects, key=lambda effect: effect.place), calendar.undone)


def _has_titles(deletion: EffectInWorld) -> bool:
    titles = deletion.fields.get("titles")
    return isinstance(deletion.fields.get("date"), str) and isinstance(titles, list)


def _without(taken: Sequence[_TitleAndTime], created: Sequence[EffectInWorld]) -> list[_TitleAndTime]:
    """The deleted events without the created ones. Of two with the same title, the time decides."""
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
    """Title and time of each deleted event."""
    titles, times = deletion.fields["titles"], deletion.fields.get("times")
    if isinstance(times, list) and len(times) == len(titles):
        return [(str(title), str(time)) for title, time in zip(titles, times, strict=True)]
    return [(str(title), None) for title in titles]


@dataclass(frozen=True)
class WrongEffect:
    """An effect instead of an expected one."""

    expected: ExpectedEffect
    effect: EffectInWorld
    fields: list[str]  # the fields that do not match


@dataclass(frozen=True)
class WorldJudgement:
    axis: World
    why: str = ""
    flags: frozenset[WorldFlag] = frozenset()
    repeated: tuple[EffectRow, ...] = ()  # all executions of effects that happened too often
    wrong_effects: tuple[WrongEffect, ...] = ()  # empty if anything else is wrong, too


def judge_world(
    oracle: Oracle, effects: Sequence[EffectRow] | None, settled: bool, task: str = ""
) -> WorldJudgement:
    """Judge the lab's world. ``effects`` is None if they could not be read. ``task``: the prompt."""
    if effects is None:
        return WorldJudgement("unknown", "the world could not be read")
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    if not effects and not oracle.effects:
        return WorldJudgement("not_applicable")
    log = _in_log(effects, task)
    if oracle.in_order and _is_in_order(oracle.effects, log):
        state = _FinalState(log, [])  # every step as expected, creations that are undone later included
    else:
        state = _final_state(oracle.effects, log)
    return _Comparison(oracle, state, log).judgement()


def combined(judgements: Sequence[WorldJudgement]) -> WorldJudgement:
    """Return the worst of several judgements (at least one)."""
    worst = min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.axis))
    flags = frozenset[WorldFlag]().union(*(judgement.flags for judgement in judgements))
    others_fine = all(each is worst or each.axis in FINE_WORLDS for each in judgements)
    return replace(worst, flags=flags, wrong_effects=worst.wrong_effects if others_fine else ())


class _Comparison:
    """Compares the final state with the oracle. ``log`` has all side effects, also undone ones."""

    def __init__(self, oracle: Oracle, state: _FinalState, log: Sequence[EffectInWorld]) -> None:
        self._oracle, self._state = oracle, state
        expected, effects = oracle.effects, state.effects
        assignment = largest_assignment(expected, effects, _matches)
        self._missing = [slot for index, slot in enumerate(expected) if index not in assignment]
        assigned = set(assignment.values())
        left = [effect for index, effect in enumerate(effects) if index not in assigned]
        self._again = [effect for effect in left if self._is_expected(effect)]
        others = [effect for effect in left if not self._is_expected(effect)]
        self._wrong = _paired(self._missing, others)
        in_place = {wrong.effect for wrong in self._wrong}
        self._extra = [effect for effect in others if effect not in in_place]
        self._unread = bool(self._missing) and may_all_fit(expected, effects, _match)
        # a forbidden text is forbidden in any statement
        against = {effect: {_match(rule, effect, literal=True) for rule in oracle.none_of} for effect in log}
        self._forbidden = [effect for effect in log if "right" in against[effect]]
        self._may_be_forbidden = [effect for effect in log if "unreadable" in against[effect]]

    def _is_expected(self, effect: EffectInWorld) -> bool:
        return any(_matches(slot, effect) for slot in self._oracle.effects)

    def judgement(self) -> WorldJudgement:
        axis, why = self._axis()
        only_wrong = not self._extra and not self._forbidden and len(self._wrong) == len(self._missing)
        return WorldJudgement(
            axis,
            why,
            self._flags(axis),
            repeated=tuple(e.row for e in self._state.effects if self._is_expected(e)) if self._again else (),
            wrong_effects=tuple(self._wrong) if axis == "wrong" and only_wrong else (),
        )

    def _axis(self) -> tuple[World, str]:
        if self._again:
            return "duplicated", self._how_often()
        if self._unread and not self._forbidden:
            return "unknown", "; ".join(dict.fromkeys(map(_unread_fields, self._wrong)))
        if any(_match(wrong.expected, wrong.effect) == "wrong" for wrong in self._wrong):
            return "wrong", f"{_counted(wrong.effect for wrong in self._wrong)} not as asked"
        if self._missing:
            return "lost", f"{', '.join(slot.kind for slot in self._missing)} missing"
        if self._extra:
            return "extra", f"{_counted(self._extra)} not asked for"
        if self._forbidden:
            return "wrong", f"{_counted(self._forbidden)} that must not happen"
        if self._oracle.in_order and not _is_in_order(self._oracle.effects, self._state.effects):
            return "wrong", "not in the expected order"
        if self._may_be_forbidden:
            return "unknown", f"{_counted(self._may_be_forbidden)} that cannot be read may be forbidden"
        return ("as_asked" if self._state.effects or self._oracle.effects else "not_applicable"), ""

    def _how_often(self) -> str:
        """``message_sent 7 times, asked for once``."""
        expected = Counter(slot.kind for slot in self._oracle.effects)
        done = Counter(effect.kind for effect in self._state.effects if self._is_expected(effect))
        kinds = dict.fromkeys(effect.kind for effect in self._again)
        return "; ".join(
            f"{kind} {times_in_words(done[kind])}, asked for {times_in_words(expected[kind])}"
            for kind in kinds
        )

    def _flags(self, axis: World) -> frozenset[WorldFlag]:
        flags: set[WorldFlag] = set()
        if self._state.undone and axis in FINE_WORLDS:
            flags.add("repaired")
        kinds = {slot.kind for slot in self._oracle.effects}
        if self._extra or self._forbidden or any(effect.kind not in kinds for effect in self._state.undone):
            flags.add("unasked")
        return frozenset(flags)


def _unread_fields(wrong: WrongEffect) -> str:
    """``message_sent: body cannot be read: "8 or 9 °C"``."""
    name = wrong.fields[0]
    return f"{wrong.effect.kind}: {name} cannot be read: {in_quotes(wrong.effect.fields.get(name))}"


def in_quotes(value: object) -> str:
    """Return a value on one line for a reason, cut after 80 characters."""
    text = " ".join(str(value).split())
    return f'"{text if len(text) <= 80 else text[:79] + "…"}"'


def _is_in_order(expected: Sequence[ExpectedEffect], effects: Sequence[EffectInWorld]) -> bool:
    """Whether the effects are the expected ones, one by one."""
    return len(expected) == len(effects) and all(map(_matches, expected, effects))


def _paired(missing: Iterable[ExpectedEffect], left: Sequence[EffectInWorld]) -> list[WrongEffect]:
    """Pair each missing effect with the most similar extra effect of its kind, if any."""
    free, pairs = list(left), []
    for slot in missing:
        same_kind = [effect for effect in free if effect.kind == slot.kind]
        if same_kind:
            nearest = min(same_kind, key=lambda effect: len(_wrong_fields(slot, effect)))
            free.remove(nearest)
            pairs.append(WrongEffect(slot, nearest, _wrong_fields(slot, nearest)))
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
