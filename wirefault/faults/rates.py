"""The effective rate of each fault of a set, given the others and the rules of the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wirefault.dialects.http import Request, json_reply
from wirefault.faults.base import Act, Changed, Try
from wirefault.faults.sets.dose import Dose
from wirefault.faults.sets.fault_set import Entry, FaultSet

# An entry's effect on every try that meets it: delay it, change the request or the reply, change only replies
# that have something to change, or let some tries pass.
_Effect = Literal["delay", "request", "reply", "some_replies", "some_tries"]


@dataclass(frozen=True)
class Marginal:
    """The share of a link's eligible tries on which an entry acts.

    Delays always act; of the other faults at most one changes a try. ``low`` and ``high`` differ where the
    share depends on the try: an earlier entry has conditions, or can change only some replies.
    """

    id: str
    kind: str
    link: str
    low: float
    high: float
    conditions: str


def marginals(faults: FaultSet) -> list[Marginal]:
    """One ``Marginal`` for each entry and link, in the set's order."""
    links = dict.fromkeys(link for entry in faults.faults for link in entry.links)
    by_link = [marginal for link in links for marginal in _on_link(link, faults.faults)]
    order = {entry.id: number for number, entry in enumerate(faults.faults)}
    return sorted(by_link, key=lambda marginal: order[marginal.id])


@dataclass
class _Left:
    """The shares of tries that earlier entries leave to the next one.

    ``least`` remains if all earlier entries act on every try that met them. The others are upper limits:
    ``requests`` for an entry that changes requests, ``untouched`` plus ``waiting`` for one that changes
    replies. On the ``waiting`` tries an earlier entry waits for a reply that it cannot change; until then
    entries that change requests are excluded.
    """

    least: float = 1.0
    requests: float = 1.0
    untouched: float = 1.0
    waiting: float = 0.0

    def most(self, effect: _Effect) -> float:
        return self.requests if effect == "request" else self.untouched + self.waiting

    def take(self, effect: _Effect, low: float, high: float) -> None:
        """Account for an entry that is met with a probability from ``low`` to ``high``."""
        if effect == "delay":
            return
        self.least *= 1 - high
        if effect != "some_tries":
            self.requests *= 1 - low
        if effect in ("request", "reply"):
            self.untouched *= 1 - low
        else:
            self.waiting += high * self.untouched
            self.untouched *= 1 - high
        if effect == "reply":
            self.waiting *= 1 - low


def _on_link(link: str, entries: Iterable[Entry]) -> Iterator[Marginal]:
    left = _Left()
    for entry in entries:
        if link not in entry.links:
            continue
        effect, (low, high) = _effect_of(entry), _chances(entry)
        least, most = (1.0, 1.0) if effect == "delay" else (left.least, left.most(effect))
        conditions = conditions_of(entry)
        yield Marginal(entry.id, entry.fault.name, link, low * least, high * most, conditions)
        left.take(effect, low, high)


def _chances(entry: Entry) -> tuple[float, float]:
    """The minimum and maximum probability that an eligible try meets the entry."""
    when, chance = entry.when, entry.when.probability
    rises_from_0 = (
        entry.fault.chooses or entry.dose.rises or (when.window is not None and when.window.ramp > 0)
    )
    stays_met = when.persistent and chance > 0
    return 0.0 if rises_from_0 else chance, 1.0 if stays_met else chance


def _effect_of(entry: Entry) -> _Effect:
    """The entry's effect, determined by a trial on a plain request and a JSON reply."""
    fault = entry.fault
    act = fault.act(Try("model", "openai_chat", Request(), "", 1, 1, 1, 1, lambda _: 0.5))
    if isinstance(act, Act) and act.only_delays:
        return "delay"
    if not isinstance(act, Act) or fault.chooses or conditions_of(entry):
        return "some_tries"
    if act.answer is not None or act.request is not None or act.copies != 1:
        return "request"
    reply = json_reply(200, {"status": "ok"})
    always = act.reply is not None and isinstance(act.reply(reply), Changed)
    return "reply" if always else "some_replies"


def conditions_of(entry: Entry) -> str:
    """Triggers, selectors and dose on one line, as in a file; empty without any."""
    given = entry.when.model_dump(mode="json", exclude_defaults=True)
    given.pop("probability", None)
    given |= entry.only.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    named = given.pop("episodes", ())
    if named:
        given["episodes"] = " or ".join(named)
    parts = [name if value is True else f"{name} {_plain(value)}" for name, value in given.items()]
    return ", ".join([*parts, *dose_text(entry.dose)])


def dose_text(dose: Dose) -> list[str]:
    """The dose in words: links per draw and parts of the attempt; empty for the whole attempt."""
    together = ["all links by one draw"] if dose.together else []
    if dose.duration:
        return [*together, f"ends after {dose.duration:g} s"]
    if dose.from_first_met:
        return [*together, f"from the first call that meets it on, {dose.spans[0]}"]
    return [*together, *map(str, dose.spans)]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_word(item)}" for name, item in value.items())
    if isinstance(value, list):  # a span
        first, last = value
        return str(first) if first == last else f"{first}-{'' if last is None else last}"
    return _word(value)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
