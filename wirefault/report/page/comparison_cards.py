"""Findings and cost of two recordings side by side: who did it, on which side, and what each cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from wirefault.history.judged_events import SEVERITIES, Finding
from wirefault.judging.findings.conduct import masked
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.writes import Write, writes_in
from wirefault.report.fixes import HELPS, snippet_for
from wirefault.report.page.costs import cost_rows, extra_row
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.figures import episode_figures
from wirefault.report.page.findings import (
    actor_of,
    changed_replies,
    effect_of,
    episode_text,
    example_text,
    finding_anchor,
    finding_layers,
    further,
    in_ranges,
    injected_text,
    reply_texts,
    where_text,
    who_text,
)
from wirefault.report.page.parts import Episodes, FindingCard, Table, count_text
from wirefault.report.page.phrase import Figure, Phrase, joined

NAMES = ("first", "second")
_MEASURES: Mapping[str, str] = {"calls": "{:d}", "seconds": "{:.2f}", "tokens": "{:d}", "usd": "{:.4g}"}
_UNITS: Mapping[str, str] = {"calls": "requests", "seconds": "s", "tokens": "model tokens", "usd": "USD"}


@dataclass
class BothSides:
    """An arm of both recordings, by episode; each episode comes on the page once."""

    episodes: Episodes
    ids: tuple[str, str]
    """Of the recordings."""
    name: str
    """Of the arm; empty for a lone run."""
    arm: str
    """Its name in commands."""
    sides: tuple[Mapping[str, JudgedEpisode], Mapping[str, JudgedEpisode]]
    _placed: dict[tuple[int, str], EpisodeCard] = field(default_factory=dict)

    @property
    def on_page(self) -> list[EpisodeCard]:
        return list(self._placed.values())

    @property
    def prefix(self) -> str:
        return f"{self.name}, " if self.name else ""

    def placed(self, side: int, key: str) -> EpisodeCard:
        """Return an episode of a side, on the page from now on."""
        if (side, key) not in self._placed:
            self._placed[side, key] = self.episodes.add(
                self.sides[side][key],
                arm=f"{self.prefix}{NAMES[side]}",
                shown_arm=self.arm if self.name else "",
                recording_id=self.ids[side],
            )
        return self._placed[side, key]


@dataclass(frozen=True)
class Group:
    """A finding, in the same words up to numbers, by episode of each side."""

    both: BothSides
    seen: tuple[dict[str, Finding], dict[str, Finding]]

    @property
    def side(self) -> int:
        """The side that shows it in more episodes."""
        return 0 if len(self.seen[0]) > len(self.seen[1]) else 1

    @property
    def key(self) -> str:
        """The episode that shows it; if possible one that shows it on that side alone."""
        own, other = self.seen[self.side], self.seen[1 - self.side]
        counterparts = self.both.sides[1 - self.side]
        return min(own, key=lambda key: (key in other, key not in counterparts))

    @property
    def finding(self) -> Finding:
        return self.seen[self.side][self.key]

    def twin(self, key: str) -> EpisodeCard | None:
        """Return the same episode of the other side."""
        other = 1 - self.side
        return self.both.placed(other, key) if key in self.both.sides[other] else None

    @property
    def text(self) -> str:
        seen = self.seen[self.side]
        return in_ranges([seen[self.key], *seen.values()])

    @property
    def actor(self) -> str:
        return _actor(self.both.sides[self.side][self.key], self.finding)

    @property
    def rank(self) -> tuple[int, bool]:
        """The worst first; of these, what differs between the sides."""
        alike = len(self.seen[0]) == len(self.seen[1])
        return SEVERITIES.index(self.finding.severity), alike


def _actor(episode: JudgedEpisode, finding: Finding) -> str:
    return actor_of(finding.rule, finding_layers(episode.trace, finding.evidence), episode.trace)


def groups_in(both: BothSides) -> list[Group]:
    """Group the findings of both sides; notes are left out."""
    groups: dict[tuple[str, str, str], Group] = {}
    for side, episodes in enumerate(both.sides):
        for key, episode in episodes.items():
            for finding in episode.findings:
                if finding.severity != "note":
                    alike = finding.severity, finding.rule, masked(finding.text)
                    groups.setdefault(alike, Group(both, ({}, {}))).seen[side].setdefault(key, finding)
    return list(groups.values())


def group_figures(group: Group) -> dict[str, Any]:
    finding = group.finding
    return {
        "arm": group.both.name,
        "severity": finding.severity,
        "rule": finding.rule,
        "headline": finding.headline,
        "text": group.text,
        "actor": group.actor,
        "episode": group.key,
        "side": NAMES[group.side],
        **{name: len(seen) for name, seen in zip(NAMES, group.seen, strict=True)},
        **{f"of_{name}": len(side) for name, side in zip(NAMES, group.both.sides, strict=True)},
    }


def group_cards(groups: Sequence[Group]) -> list[FindingCard]:
    """Return a card for each group: who did it, on which side how often, and what both sides cost."""
    return [_card(place, group) for place, group in enumerate(groups)]


def _card(place: int, group: Group) -> FindingCard:
    side, key, finding = group.side, group.key, group.finding
    example = group.both.placed(side, key)
    twin = group.twin(key)
    layers = finding_layers(example.trace, finding.evidence)
    costs = cost_rows(example, [], (f"this episode in the {NAMES[side]}", ""))
    if twin is not None:
        costs += [
            *cost_rows(twin, [], (f"in the {NAMES[1 - side]}", "")),
            extra_row(*((twin, example) if side == 0 else (example, twin)), "the second less the first"),
        ]
    pair = [example, twin] if side == 0 else [twin, example]
    evidence = finding.evidence[0] if finding.evidence else ""
    at = ("figures", "findings", place)
    arm = [f"arm {group.both.name}: "] if group.both.name else []
    return FindingCard(
        finding.severity,
        finding.rule,
        Figure(group.text, *at, "text"),
        Phrase(*arm, _count(group, at, 0), ", ", _count(group, at, 1)),
        costs,
        HELPS.get(finding.rule, ""),
        f"#{finding_anchor(example, evidence)}",
        example.command,
        example.repeat,
        f"{group.actor}, in the {NAMES[side]}",
        who_text(group.actor, layers, example),
        headline=Figure(finding.headline, *at, "headline"),
        snippet=snippet_for(finding),
        also=further([example, *(group.both.placed(side, each) for each in group.seen[side])]),
        no_control="" if twin is not None else "not compared: the other recording has not this episode",
        example=Phrase(example_text([example]), f", of the {NAMES[side]}"),
        injected=injected_on_both([each for each in pair if each is not None]) if twin else "",
        where=where_text(example, finding.evidence),
        other_side=_other_side(twin, 1 - side, group) if twin is not None else "",
        other_replies=_other_replies(twin, finding.rule) if twin is not None else (),
        replies=reply_texts(example, finding.rule, finding.evidence),
        both_sides=changed_replies(example, finding.evidence),
        effect=effect_of(
            finding.rule,
            finding.evidence,
            [(group.both.placed(side, each), group.twin(each)) for each in [key, *group.seen[side]]],
            f" in the {NAMES[side]}",
        ),
        episode=episode_text(example),
    )


def _count(group: Group, at: Sequence[str | int], side: int) -> Phrase:
    name = NAMES[side]
    count = Figure(len(group.seen[side]), *at, name)
    of = Figure(count_text(len(group.both.sides[side]), "episode"), *at, f"of_{name}")
    return Phrase("in ", count, " of ", of, f" of the {name}")


def worst_text(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a sentence about the worst finding that one side shows more often, if there is one."""
    for place, group in enumerate(groups):
        if len(group.seen[0]) != len(group.seen[1]):
            at = ("figures", "findings", place)
            yield from (" ", Figure(group.finding.headline, *at, "headline"), ": ")
            yield from (_count(group, at, 0), ", ", _count(group, at, 1), ".")
            return


def injected_on_both(placed: Sequence[EpisodeCard]) -> str:
    """Say which faults the lab injected on each side."""
    one, other = (injected_text(each, ()) or "none" for each in placed)
    return f"first: {one}, second: {other}"


_KEYS: Mapping[str, str] = {
    "same": "with the same idempotency key, by which the upstream can recognise it",
    "none": "with no idempotency key",
    "another": "with another idempotency key",
    "unknown": "and its key is not recorded",
}
"""How a write was sent again, by its key."""
_SURE = "declared or probable"


def repeated_writes(episodes: Iterable[JudgedEpisode]) -> dict[str, int]:
    """Count the writes that were sent again, by the key of the repetition."""
    counts = Counter(
        _key_of_repetition(first, again)
        for episode in episodes
        for group in _same_writes(episode)
        for first, again in pairwise(group)
    )
    return {name: counts[name] for name in _KEYS if counts[name]}


def _same_writes(episode: JudgedEpisode) -> Iterable[list[Write]]:
    """Return the episode's writes, with the same ones of an attempt together."""
    groups: defaultdict[tuple[int, str], list[Write]] = defaultdict(list)
    for write in writes_in(episode.trace):
        groups[write.request.attempt, write.same].append(write)
    return groups.values()


def _other_replies(twin: EpisodeCard, rule: str) -> list[str]:
    """Return what the upstream replied to the first write that the twin repeated."""
    repeated = next((group for group in _same_writes(twin) if len(group) > 1), [])
    return reply_texts(twin, rule, [id for write in repeated for id in write.request.ids])


def _key_of_repetition(first: Write, again: Write) -> str:
    if first.key is None or again.key is None:
        return "unknown"
    if not again.key:
        return "none"
    return "same" if first.key == again.key else "another"


def repeated_text(counts: Mapping[str, int], at: Sequence[str | int]) -> Phrase:
    """Say how writes were sent again. ``at``: the place of the counts in ``--json``."""
    parts: list[str] = [
        Phrase(Figure(count_text(count, "write"), *at, name), f", {_SURE}, sent again {_KEYS[name]}")
        for name, count in counts.items()
    ]
    return joined("; ", parts) if parts else Phrase("no write was sent again")


def _other_side(twin: EpisodeCard, side: int, group: Group) -> Phrase:
    """Say what the same episode did in the other recording."""
    alike = group.seen[side].get(group.key)
    finding = "the same finding" if alike else "no such finding"
    return Phrase(f"in the {NAMES[side]}, {finding}: ", _repeated_in(twin))


def _repeated_in(placed: EpisodeCard) -> Phrase:
    placed.row["repeated"] = counts = repeated_writes([placed])
    return repeated_text(counts, ("figures", "episodes", placed.number - 1, "repeated"))


def reaction_text(placed: EpisodeCard) -> Phrase:
    """Say who reacted, and how: the worst finding, else the outcome."""
    findings = [each for each in placed.findings if each.severity != "note"]
    if findings:
        place, finding = min(
            ((place, each) for place, each in enumerate(placed.findings) if each in findings),
            key=lambda pair: SEVERITIES.index(pair[1].severity),
        )
        return Phrase(placed.figure(finding.headline, "findings", place, "headline"))
    outcome = placed.judged.outcome
    if OUTCOMES[outcome].tone == "good":
        return Phrase("no finding, ", _repeated_in(placed))
    why = [": ", placed.figure(placed.judged.why, "why")] if placed.judged.why else []
    return Phrase(actor_of(outcome, (), placed.trace), *why)


def cost_figures(arms: Sequence[BothSides]) -> dict[str, Any]:
    """Add up calls, seconds, tokens and money of each side, over the episodes that both have.

    Without a common episode: over all of each side, with no difference. A measure that an episode of a pair
    has not counts for neither.
    """
    rows = [
        [episode_figures("", side[key]) for side in arm.sides]
        for arm in arms
        for key in arm.sides[0]
        if key in arm.sides[1]
    ]
    lone = [
        [episode_figures("", each) for arm in arms for each in arm.sides[side].values()] for side in (0, 1)
    ]
    whole: dict[str, Any] = {"paired": bool(rows), "episodes": len(rows)}
    sums: list[dict[str, float | None]] = [{}, {}]
    for name in _MEASURES:
        both = [pair for pair in rows if all(each[name] is not None for each in pair)]
        for side in (0, 1):
            values = [pair[side][name] for pair in both]
            if not rows:
                values = [row[name] for row in lone[side] if row[name] is not None]
            sums[side][name] = round(sum(values), 6) if values else None
    one, other = sums
    differences = {
        name: None if one[name] is None or other[name] is None else round(other[name] - one[name], 6)  # type: ignore[operator]
        for name in _MEASURES
    }
    return {**whole, "first": one, "second": other, "difference": differences if rows else None}


def cost_text(costs: Mapping[str, Any], side: int) -> Phrase:
    """Return the cost of a side in words."""
    name = NAMES[side]
    parts: list[str] = [
        Figure(f"{form.format(value)} {_UNITS[key]}", "figures", "costs", name, key)
        for key, form in _MEASURES.items()
        if (value := costs[name][key]) is not None
    ]
    over = Figure(count_text(costs["episodes"], "episode"), "figures", "costs", "episodes")
    scope = [", over the ", over, " that both have"] if costs["paired"] else [", over all its episodes"]
    return Phrase(joined(", ", parts), *scope)


def cost_table(costs: Mapping[str, Any]) -> Table:
    rows = []
    for key, form in _MEASURES.items():
        cells = [
            "not reported" if costs[name][key] is None else Figure(form.format(costs[name][key]), *at, key)
            for name in NAMES
            for at in [("figures", "costs", name)]
        ]
        change = (costs["difference"] or {}).get(key)
        text = form.replace("{:", "{:+").format(change) if change else "0"
        at = ("figures", "costs", "difference", key)
        cells.append("–" if change is None else Figure(text, *at))
        rows.append((_UNITS[key], *cells))
    note = "over the episodes that both have" if costs["paired"] else "over all of each: they share none"
    return Table("Cost of each", ("", *NAMES, "difference"), rows, note)
