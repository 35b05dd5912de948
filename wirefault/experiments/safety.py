"""Limits of an experiment: blast radius, abort conditions, targets, time and cost. Pure.

safety:
  blast_radius: {links: [maps, weather], episodes: 25 %, calls: 3}
  abort: [error_rate > 50 %, cost > 2, time > 10min, invalid_share > 20 %]
  targets: [api.example.com]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from wirefault.core.errors import nearest
from wirefault.core.sockets import is_this_machine
from wirefault.experiments.expression import Duration, ExpressionError, ShareOfEpisodes, parse_expression
from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.episode_faults import radius_draw
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Links
from wirefault.wiring.spec_file import Spec
from wirefault.wiring.subject_spec import HttpSpec
from wirefault.wiring.wiring import Wiring

ABORT_NAMES = ("error_rate", "cost", "time", "invalid_share")
_EMPTY = "must not be empty: name links, episodes or calls, or leave blast_radius out"


def _abort_condition(text: str) -> str:
    try:
        names = parse_expression(text).names
    except ExpressionError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not names:
        raise ValueError(f"{text!r}: has no condition that can be watched; valid: {', '.join(ABORT_NAMES)}")
    for name in names:
        if name not in ABORT_NAMES:
            raise ValueError(f"{text!r}: {name} is not watched{nearest(name, ABORT_NAMES)}")
    return text


class BlastRadius(Spec):
    """Which links, episodes and calls may be faulted; an omitted dimension has no limit."""

    links: list[str] | None = Field(
        None, min_length=1, description="links that may have faults, or tools, writes, model"
    )
    episodes: ShareOfEpisodes | None = Field(
        None, description="maximum share of an arm's episodes with faults; drawn by the seed"
    )
    calls: int | None = Field(
        None, ge=1, description="maximum number of calls of an episode that faults at the gateway may change"
    )

    @model_validator(mode="after")
    def _says_something(self) -> BlastRadius:
        if self.links is None and self.episodes is None and self.calls is None:
            raise ValueError(_EMPTY)
        return self


class Safety(Spec):
    """Limits on the harm that an experiment may do."""

    blast_radius: BlastRadius | None = Field(None, description="where faults may act")
    abort: list[Annotated[str, AfterValidator(_abort_condition)]] = Field(
        default_factory=list,
        description=f"ends the experiment as soon as one is true; of {', '.join(ABORT_NAMES)}",
    )
    targets: list[str] | None = Field(
        None, description="the hosts besides this machine that may be called; by default the wiring's"
    )

    @field_validator("blast_radius", mode="before")
    @classmethod
    def _is_not_empty(cls, value: Any) -> Any:
        if value is None:
            raise ValueError(_EMPTY)
        return value


def within_radius(
    radius: BlastRadius | None, settings: Settings, episodes: Sequence[str], links: Links
) -> Settings:
    """Restrict an arm's settings to the radius, for the episodes with these keys.

    Raises ``ValueError`` that names the faults outside it.
    """
    if radius is None:
        return settings
    if radius.links is not None:
        _check_links(radius.links, settings, links)
    changes: dict[str, Any] = {}
    if radius.calls is not None:
        _check_calls(settings)
        changes["fault_calls"] = radius.calls
    if radius.episodes is not None:
        changes["fault_episodes"] = _cut(radius.episodes, settings.seed, episodes)
    return settings.model_copy(update=changes)


def _check_links(named: Sequence[str], settings: Settings, links: Links) -> None:
    valid = (*links.names, *(group for group in links.groups if group != "all"))
    for name in named:
        if name not in valid and (not links.grows or links.why_never_found(name)):
            raise ValueError(f"safety.blast_radius.links: unknown link {name}{nearest(name, valid)}")
    allowed = {link for name in named for link in links.groups.get(name, (name,))}
    for entry, struck in _struck_links(settings, links):
        if outside := [link for link in struck if link not in allowed]:
            raise ValueError(
                f"{entry} affects {', '.join(outside)}, outside of safety.blast_radius.links"
                f" ({', '.join(named)}): narrow its links, or widen the radius"
            )


def _struck_links(settings: Settings, links: Links) -> Iterator[tuple[str, Sequence[str]]]:
    """Each fault, or setting with faults, and its links."""
    faults = read_canonical(settings.faults, settings.chaos_level)
    yield from ((f"the fault {entry.id}", entry.links) for entry in faults.faults)
    yield from ((f"the toxic {entry.id}", entry.links) for entry in faults.toxics)
    yield from ((name, links.tool_names) for name in ("toxic_prob", "error_prob") if getattr(settings, name))


def _check_calls(settings: Settings) -> None:
    toxics = [f"the toxic {entry.id}" for entry in read_canonical(settings.faults).toxics]
    if named := [*toxics, *(["toxic_prob"] if settings.toxic_prob else [])]:
        raise ValueError(
            f"{named[0]} affects every call of an attempt on its link, which safety.blast_radius.calls cannot"
            " bound: use a fault of the gateway in its place, or leave `calls` out"
        )


def _cut(share: float, seed: int, episodes: Sequence[str]) -> float:
    """The threshold below which the draws of at most that share of episodes are."""
    draws = sorted(radius_draw(seed, episode) for episode in episodes)
    count = int(share * len(draws) + 1e-9)  # 0.1 * 30 is slightly less than 3
    if not count:
        raise ValueError(
            f"safety.blast_radius.episodes: {share:g} of {len(draws)} episodes is less than one: run"
            " more episodes, or raise the share"
        )
    return draws[count] if count < len(draws) else 1.0


def episodes_outside_radius(settings: Settings, episodes: Sequence[str]) -> int:
    """The number of episodes outside the blast radius, which run without faults."""
    return sum(radius_draw(settings.seed, episode) >= settings.fault_episodes for episode in episodes)


def untouchable(safety: Safety, wiring: Wiring) -> str:
    """Describe the wiring's first forbidden target; empty if there is none.

    The lab's own wiring has none: its model and translator are settings.
    """
    if safety.targets is None:
        return ""
    listed = {target.lower() for target in safety.targets}
    for what, address in _targets(wiring):
        host = (urlsplit(address).hostname or "").lower()
        if host and host not in listed and not is_this_machine(host):
            return (
                f"{what} leads to {host}, which is neither this machine nor in safety.targets: list it there"
                " if it may be called"
            )
    return ""


def _targets(wiring: Wiring) -> Iterator[tuple[str, str]]:
    for link in wiring.links:
        if not (link.is_of_lab or link.is_stdio or link.is_in_process):
            yield f"the link {link.name}", link.upstream
    if isinstance(wiring.subject, HttpSpec):
        yield "the subject", wiring.subject.http


class Spending(Spec):
    """Limits of one run of the experiment; a resumed one starts anew."""

    time: Duration | None = Field(
        None, gt=0, description="seconds, or a time such as 10min; after it no episode begins"
    )
    cost: float | int | None = Field(
        None, gt=0, description="USD, if `prices` has all models; once it is spent no episode begins"
    )
    episodes: int | None = Field(
        None, gt=0, description="with `until_decided`: the most episodes of an arm; 1000 by default"
    )
