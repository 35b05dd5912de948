"""The final state of a world, folded from the log of its side effects. Pure.

What was sent stays sent. The calendar alone can be put right: an event that was created and deleted again is
not there, nor is the deletion of an event of the user's own that was created anew as it was.

A deletion names the titles of all that it took, and (in newer histories) their times. What of it the log has
created before was the agent's, the rest was the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wirefault.judging.oracle.assignment import EffectInWorld, EffectRow, assign, in_log
from wirefault.judging.oracle.expect import ExpectedEffect

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
