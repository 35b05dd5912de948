"""The evidence of remembered episodes about the planner's cells. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wirefault.audit.calls import Call
from wirefault.memory.episodes import Remembered
from wirefault.memory.planner.cells import Cell
from wirefault.memory.planner.risk import Tally

HARM = frozenset(("failure", "unsafe"))
"""The results of an episode that count as harm."""


@dataclass(frozen=True)
class Evidence:
    """The tallies by cell, with the runs that they rest on."""

    tallies: Mapping[str, Tally] = field(default_factory=dict)
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def clean_calls(episodes: Iterable[Remembered], prompts: Sequence[str]) -> dict[str, tuple[Call, ...]]:
    """The calls of the newest clean episode of each prompt that has one; ``prompts``: their ids."""
    calls: dict[str, tuple[Call, ...]] = {}
    for episode in episodes:
        if (prompt := prompt_of(episode.key)) in prompts and episode.calls and not episode.faults:
            calls[prompt] = episode.calls
    return {prompt: calls[prompt] for prompt in prompts if prompt in calls}


def prompt_of(key: str) -> str:
    """The prompt of an episode's key, without the number of its repetition."""
    name, _, number = key.rpartition(".r")
    return name if name and number.isdecimal() else key


def clean_signs(episodes: Iterable[Remembered]) -> frozenset[str]:
    """The signs of weakness in episodes without faults: these say nothing about a fault."""
    calm = [each for each in episodes if not each.faults and not each.uncertain]
    return frozenset(sign for each in calm for sign in signs_of(each))


def signs_of(episode: Remembered) -> tuple[str, ...]:
    """The outcome, if it is not a success, and the rules of findings."""
    outcome = () if episode.success is not False else (episode.outcome,)
    return tuple(dict.fromkeys((*outcome, *(each.rule for each in episode.findings))))


def tally_of(episode: Remembered, ignored: Iterable[str] = ()) -> Tally:
    """The episode as a tally of one; without a delivered fault it is absent."""
    if not episode.faults:
        return Tally(absent=1)
    if episode.result in ("interrupted", "unjudged") and not episode.findings:
        return Tally()
    signs = set(signs_of(episode)) - set(ignored)
    return Tally(delivered=1, bad=int(bool(signs)), harm=int(bool(signs) and episode.result in HARM))


def evidence_in(episodes: Iterable[Remembered], cells: Sequence[Cell]) -> Evidence:
    """Count the episodes of each cell, and of each pair.

    An episode counts for a cell if its only fault is the cell's entry; one of other origin if the kind of its
    only fault, the component and the dose are the cell's.
    """
    episodes = list(episodes)
    ignored = clean_signs(episodes)
    ids = [cell.id for cell in cells]
    place = {id: number for number, id in enumerate(ids)}
    by_kind: defaultdict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_kind[cell.fault, cell.component].append(cell)
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    runs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for episode in episodes:
        entries = {each.entry or each.kind for each in episode.faults}
        if not entries or episode.uncertain:
            continue
        if entries <= place.keys() and len(entries) <= 2:
            names = ["+".join(sorted(entries, key=place.__getitem__))]
        elif len(episode.faults) == 1 and not entries & place.keys():
            fault = episode.faults[0]
            similar = [cell for name in fault.components for cell in by_kind.get((fault.kind, name), ())]
            names = [cell.id for cell in similar if _has_dose(cell, fault.parameters)]
        else:
            continue
        for name in names:
            tallies[name] += tally_of(episode, ignored)
            runs[name][episode.run_id] = None
    return Evidence(dict(tallies), {name: tuple(each) for name, each in runs.items()})


def _has_dose(cell: Cell, parameters: Mapping[str, float]) -> bool:
    return cell.dose is None or parameters.get(cell.dose_name) == cell.dose
