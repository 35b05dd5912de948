"""Knowledge about each component and fault, from remembered episodes. Pure.

Effects are paired: an episode in which the fault was the only one delivered, and the control's episode of the
same prompt and repetition. An episode with several faults counts for none of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wirefault.memory.episodes import Remembered, RememberedFault, RememberedOutage, Result
from wirefault.stats.rates import Difference, Share, paired_difference
from wirefault.stats.survival import Duration, mean_time

CONFIDENCE = 0.9
_Twins = Mapping[tuple[str, str, str], Remembered]


@dataclass(frozen=True)
class Range:
    """The smallest and the largest value of a parameter over ``n`` episodes."""

    low: float
    high: float
    n: int


@dataclass(frozen=True)
class ParameterRange:
    """The doses of one parameter in episodes that succeeded and that did not; None without any."""

    name: str
    survived: Range | None
    failed: Range | None


@dataclass(frozen=True)
class Pattern:
    """A rule of findings: in how many episodes it fired with the fault, and without any."""

    rule: str
    with_fault: Share
    without: Share
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Affected:
    """Another component: how much less often it worked in the pairs in which the control used it."""

    component: str
    worked: Difference
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Recovery:
    """``seconds``: mean time to recovery, a lower bound if ``at_least``; None without outages."""

    outages: int
    recovered: int
    seconds: float | None
    at_least: bool


@dataclass(frozen=True)
class Knowledge:
    """Knowledge about one component under one fault.

    ``alone``: episodes in which no other fault was delivered. ``effect``: rise of the success rate over the
    pairs; None without pairs.
    """

    component: str
    fault: str
    episodes: int
    alone: int
    results: Mapping[Result, int]
    with_fault: Share
    without: Share
    effect: Difference | None
    ranges: tuple[ParameterRange, ...]
    patterns: tuple[Pattern, ...]
    affected: tuple[Affected, ...]
    recovery: Recovery
    runs: tuple[str, ...]


def known_components(episodes: Sequence[Remembered]) -> list[Knowledge]:
    """The knowledge about all components and faults, by component and fault."""
    with_fault: defaultdict[tuple[str, str], list[Remembered]] = defaultdict(list)
    for episode in episodes:
        for component, fault in sorted({pair for each in episode.faults for pair in _pairs(episode, each)}):
            with_fault[component, fault].append(episode)
    twins = {(each.source, each.arm, each.key): each for each in episodes}
    calm: defaultdict[str, list[Remembered]] = defaultdict(list)
    for episode in episodes:
        if not episode.faults and not episode.uncertain:
            calm[episode.source].append(episode)
    return [
        _known(component, fault, of_pair, calm, twins)
        for (component, fault), of_pair in sorted(with_fault.items())
    ]


def _pairs(episode: Remembered, fault: RememberedFault) -> Iterator[tuple[str, str]]:
    for component in (*fault.components, episode.subject):
        yield component, fault.kind


def _known(
    component: str,
    fault: str,
    episodes: Sequence[Remembered],
    calm: Mapping[str, Sequence[Remembered]],
    twins: _Twins,
) -> Knowledge:
    sources = dict.fromkeys(each.source for each in episodes)
    without = [
        each
        for source in sources
        for each in calm.get(source, ())
        if component in each.used or component == each.subject
    ]
    alone = [each for each in episodes if _is_alone(each)]
    pairs = [(twin, each) for each in alone if (twin := twin_of(each, twins)) is not None]
    return Knowledge(
        component=component,
        fault=fault,
        episodes=len(episodes),
        alone=len(alone),
        results=dict(Counter(each.result for each in episodes)),
        with_fault=Share.of(each.success for each in episodes),
        without=Share.of(each.success for each in without),
        effect=_difference((before.success, after.success) for before, after in pairs),
        ranges=tuple(_ranges(component, fault, episodes)),
        patterns=tuple(_patterns(component, episodes, without)),
        affected=tuple(_affected(pairs)),
        recovery=_recovery(component, fault, episodes),
        runs=_runs(episodes),
    )


def _is_alone(episode: Remembered) -> bool:
    """Whether one fault alone was delivered, on one link, and no other is possible."""
    return not episode.uncertain and len({(each.link, each.kind) for each in episode.faults}) == 1


def twin_of(episode: Remembered, twins: _Twins) -> Remembered | None:
    """The control's episode of the same prompt and repetition; None if it met a fault, or is missing."""
    twin = twins.get((episode.source, episode.twin_arm, episode.key)) if episode.twin_arm else None
    return None if twin is None or twin.faults or twin.uncertain else twin


def _runs(episodes: Iterable[Remembered]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.run_id for each in episodes))


def _difference(pairs: Iterable[tuple[bool | None, bool | None]]) -> Difference | None:
    counts = Counter(pairs)
    return paired_difference(
        both=counts[True, True],
        only_first=counts[True, False],
        only_second=counts[False, True],
        neither=counts[False, False],
        confidence=CONFIDENCE,
    )


def _ranges(component: str, fault: str, episodes: Sequence[Remembered]) -> Iterator[ParameterRange]:
    """The parameters that episodes survived, and that they did not: these without any other fault."""
    values: defaultdict[str, dict[bool, list[list[float]]]] = defaultdict(lambda: {True: [], False: []})
    for episode in episodes:
        is_alone = all((component, fault) in _pairs(episode, each) for each in episode.faults)
        if episode.success is False and not is_alone:
            continue
        doses: defaultdict[str, list[float]] = defaultdict(list)
        for each in episode.faults:
            if (component, fault) in _pairs(episode, each):
                for name, value in each.parameters.items():
                    doses[name].append(value)
        for name, of_episode in doses.items():
            if episode.success is not None:
                values[name][episode.success].append(of_episode)
    for name, by_success in sorted(values.items()):
        yield ParameterRange(name, _range(by_success[True]), _range(by_success[False]))


def _range(doses: Sequence[Sequence[float]]) -> Range | None:
    if not doses:
        return None
    return Range(min(map(min, doses)), max(map(max, doses)), len(doses))


def _patterns(
    component: str, episodes: Sequence[Remembered], without: Sequence[Remembered]
) -> Iterator[Pattern]:
    """The rules that fired about the component; without requests in evidence, about an episode as a whole."""
    fired: defaultdict[str, list[Remembered]] = defaultdict(list)
    for episode in episodes:
        for rule in _rules(component, episode):
            fired[rule].append(episode)
    calm = Counter(rule for episode in without for rule in _rules(component, episode))
    for rule, of_rule in sorted(fired.items(), key=lambda item: (-len(item[1]), item[0])):
        shares = Share(len(of_rule), len(episodes)), Share(calm[rule], len(without))
        yield Pattern(rule, *shares, _runs(of_rule))


def _rules(component: str, episode: Remembered) -> set[str]:
    return {
        each.rule
        for each in episode.findings
        if not each.components or component in each.components or component == episode.subject
    }


def _affected(pairs: Sequence[tuple[Remembered, Remembered]]) -> Iterator[Affected]:
    """The components that the fault was not injected at, by how often they worked with it and without."""
    worked: defaultdict[str, list[tuple[bool | None, bool | None]]] = defaultdict(list)
    lost: defaultdict[str, list[Remembered]] = defaultdict(list)
    for before, after in pairs:
        faulted_links = {each.link for each in after.faults}
        for component, ok in before.used.items():
            if _link_of(component) not in faulted_links and not _is_faulted(component, after):
                # a call that is no longer made did not work
                pair = ok, after.used.get(component, False)
                worked[component].append(pair)
                if pair == (True, False):
                    lost[component].append(after)
    for component, of_component in sorted(worked.items()):
        difference = _difference(of_component)
        if difference is not None and difference.value < 0:
            yield Affected(component, difference, _runs(lost[component]))


def _link_of(component: str) -> str:
    kind, _, name = component.partition(" ")
    return name.partition(" ")[0] if kind == "tool" else name if kind == "link" else ""


def _is_faulted(component: str, episode: Remembered) -> bool:
    return any(component in each.components for each in episode.faults)


def _recovery(component: str, fault: str, episodes: Sequence[Remembered]) -> Recovery:
    """By the outages of the faulted links that this fault caused."""
    outages: list[RememberedOutage] = []
    for episode in episodes:
        links = {
            f"link {each.link}" for each in episode.faults if (component, fault) in _pairs(episode, each)
        }
        outages += [each for each in episode.outages if each.link in links and fault in each.faults]
    times = [Duration(each.seconds, each.end == "recovered") for each in outages]
    recovered = sum(each.ended for each in times)
    return Recovery(len(times), recovered, mean_time(times), at_least=recovered < len(times))
