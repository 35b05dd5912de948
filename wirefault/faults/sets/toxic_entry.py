"""A toxic of a fault set: read, checked and written. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wirefault.core.spans import Span
from wirefault.faults.sets.checks import (
    FaultSetError,
    checked_mapping,
    checked_model,
    required_name,
    text_or,
)
from wirefault.faults.sets.dose import Dose, dose_of
from wirefault.faults.sets.named_links import named_links
from wirefault.faults.sets.selectors import Only
from wirefault.faults.sets.triggers import When
from wirefault.toxiproxy.toxics import TOXICS, toxic
from wirefault.toxiproxy.toxics.text_form import ToxicSpec, streams_of
from wirefault.wiring.links import Links


@dataclass(frozen=True)
class ToxicEntry:
    """A toxic that an attempt may have on these links, with that chance.

    ``turn``: in which turns of the user it stands; None: in all. ``only`` says in which episodes.
    """

    spec: ToxicSpec
    links: tuple[str, ...]
    probability: float = 1.0
    id: str = ""
    dose: Dose = field(default_factory=Dose)
    turn: tuple[int, int | None] | None = None
    only: Only = field(default_factory=Only)

    @property
    def spans(self) -> Sequence[Span]:
        """When it stands in its attempt; none: throughout."""
        return self.dose.spans

    @property
    def together(self) -> bool:
        """Whether one draw is for all its links."""
        return self.dose.together

    def strikes(self, episode: str) -> bool:
        """Whether an attempt of that episode may have it."""
        return self.only.in_episode(episode)

    def dump(self) -> dict[str, Any]:
        spec = self.spec
        one_way = toxic(spec.kind).has_stream and len(spec.streams) == 1
        streams = {"stream": spec.streams[0]} if one_way else {}
        turn = {} if self.turn is None else {"turn": list(self.turn)}
        only = self.only.model_dump(mode="json", exclude_defaults=True)
        return {
            "id": self.id or spec.kind,
            "toxic": spec.kind,
            "links": list(self.links),
            "with": dict(spec.attributes),
            "when": {"probability": self.probability, **turn},
            **({"only": only} if only else {}),
            **self.dose.model_dump(mode="json", exclude_defaults=True),
            **streams,
        }


def toxic_entry(value: Any, where: str, wired: Links | None) -> ToxicEntry:
    """The toxic of an entry for these links. Raises ``FaultSetError``."""
    given = checked_mapping(
        value, where, ("toxic", "links", "stream", "with", "when", "only", "id", *Dose.model_fields)
    )
    kind = required_name(given, "toxic", (toxic.kind for toxic in TOXICS), where)
    at = f"{where}: {kind}"
    links = given.get("links")
    on, _ = named_links("tools" if links is None else links, f"{at}: links", wired)
    if not on:
        raise FaultSetError(f"{at}: links: there is no such link in this wiring")
    checked_mapping(given.get("when"), f"{at}: when", ("probability", "turn"))
    when = checked_model(When, given.get("when"), f"{at}: when")
    checked_mapping(given.get("only"), f"{at}: only", ("episodes",))
    only = checked_model(Only, given.get("only"), f"{at}: only")
    name = text_or(kind, given.get("id"), f"{at}: id")
    dose = dose_of(given, at)
    spec = _possible(_spec(kind, given, where), dose, at)
    return ToxicEntry(spec, on, when.probability, name, dose, when.turn, only)


def _possible(spec: ToxicSpec, dose: Dose, at: str) -> ToxicSpec:
    """The spec as it can be carried out in that dose."""
    known = toxic(spec.kind)
    if dose.rises and known.at_share(spec.attributes, 1.0) is None:
        raise FaultSetError(
            f"{at}: during: {spec.kind} is there or not, so that it cannot rise: leave ramp out"
        )
    if not dose.by_calls:
        return spec
    if not known.lets_requests_pass or "downstream" not in spec.streams:
        kept = f"{spec.kind}{'' if 'downstream' in spec.streams else ' upstream'}"
        raise FaultSetError(
            f"{at}: during: {kept} keeps requests from the gateway, which therefore cannot count the calls:"
            " give seconds, or take a fault with the same during, such as unavailable or lose_reply"
        )
    if known.closes_when_removed and any(span.duration for span in dose.spans):
        raise FaultSetError(
            f"{at}: during: the end of {spec.kind} closes the connection of the next call too, which it is"
            " not to strike: leave duration out, give seconds, or take a fault with the same during: hang"
        )
    return replace(spec, streams=("downstream",))  # the gateway has the request: only its reply is to come


def _spec(kind: str, given: Mapping[str, Any], where: str) -> ToxicSpec:
    try:
        known = toxic(kind)
    except ValueError as error:
        raise FaultSetError(f"{where}: {error}") from None
    at = f"{where}: {kind}"
    attributes = checked_mapping(given.get("with"), f"{at}: with", None)
    try:
        complete = known.complete(attributes, f"{at}: with")
        return ToxicSpec(kind, complete, streams_of(known, given.get("stream"), f"{at}: stream"))
    except ValueError as error:
        raise FaultSetError(str(error)) from None
