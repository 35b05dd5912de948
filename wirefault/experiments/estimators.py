"""Estimators: from the values of an arm's episodes to a measure with bounds and interval. Pure.

An episode that is invalid or was not run could have had any value: a count is bounded by none and by all of
them, a sum has no upper bound. Rates, means, percentiles and differences also have an ``estimate``, whose
interval decides claims about them. Without data a measure has no bounds at all.

An episode is *reached* if a fault was delivered to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from msgspec import Struct

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.episode_view import EpisodeView
from wirefault.experiments.estimates import Estimate, Population, Rate, RateOfParts, Terms
from wirefault.experiments.expression import Bounds, Truth, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.logical_calls import FailedCalls
from wirefault.experiments.means import Mean, Percentile, TimePercentile
from wirefault.experiments.measure import Measure, Unit, bounds_text
from wirefault.experiments.measured import Measured
from wirefault.experiments.outages import Interruption
from wirefault.experiments.tries import OverTries, tries_needed
from wirefault.judging.layers import BY_LAYER
from wirefault.judging.summary import counted
from wirefault.stats.bootstrap import MIN_SEEN
from wirefault.stats.rates import Share, percentile
from wirefault.stats.survival import Duration, mean_time

NOT_REACHED = "no data: no fault reached an episode"
NOT_JUDGED = "not judged"
"""No episode shows whether it counts."""
_HIDDEN = "open: not every episode shows"


class Figure(Struct, frozen=True):
    """A row of the table of figures."""

    name: str
    meaning: str
    """One sentence, without the unit's name where it has one."""
    estimator: Estimator
    value: Callable[[EpisodeFacts], Any] = lambda _: None
    """Of an episode, in the form that the estimator takes."""
    unit: Unit = ""
    better: Literal["higher", "lower", ""] = "lower"
    """Which direction is better; empty if neither is."""
    needs_oracle: bool = False
    """Whether an episode without an oracle leaves it open."""
    of_one: Callable[[EpisodeView, str, str], Measured] | None = None
    """Of one episode, or of a turn of it: for a link and a kind of fault, empty for all."""
    needs: str = ""
    """What ``of_one`` needs in the history."""

    @property
    def counts_events(self) -> bool:
        """Whether it counts what should not be, so that ``no NAME`` is a check of each episode."""
        return self.estimator.counts_events and bool(self.better)


class Estimator:
    """``low`` and ``high`` are the range of its figures."""

    name = "count"
    is_estimated = True
    """Whether an interval decides about it; a count is known."""
    counts_events = False
    low: float = 0.0
    high: float = math.inf

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        """The figure of an arm."""
        raise NotImplementedError

    def against(self, figure: Figure, arm: Measures, control: Measures, terms: Terms) -> Measure:
        """A figure that only the comparison with the control gives."""
        raise NotImplementedError

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate | None:
        """The estimate if every episode were as good as it can be; None for a count."""
        if not self.is_estimated:
            return None
        best = max(self.low, 0.0)
        return Mean(dict.fromkeys(keys, (best, 1.0)), population, lowest=best)


Measures = Mapping[str, Measure]


# counts


@dataclass(frozen=True)
class Count(Estimator):
    """Episodes of which ``value`` is true; None for one that could be.

    If higher is better, the others show it.
    """

    with_interval: bool = True
    why: Callable[[EpisodeFacts], str] = lambda _: ""
    is_estimated = False
    counts_events = True

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        values = {episode.episode: figure.value(episode) for episode in arm.episodes}
        count, showing = len(_keys(values, True)), _keys(values, figure.better != "higher")
        could = len(_keys(values, None)) + max(arm.missing, 0)
        bounds = Bounds(count, count + could)
        why = "; ".join(filter(None, dict.fromkeys(map(self.why, arm.episodes))))
        rate = Rate(values) if self.with_interval and values and not could else None
        reason = NOT_JUDGED if could and could == planned_episodes(arm) else ""
        return Measure(bounds, f"of {planned_episodes(arm)}", showing, why, rate=rate, reason=reason)


class Planned(Estimator):
    """All planned episodes."""

    is_estimated = False

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        return Measure(exactly(planned_episodes(arm)))


@dataclass(frozen=True)
class Sum(Estimator):
    """Events of the valid episodes. ``value`` is their number, and whether there may be more.

    ``of_run``: of the episodes that ran, whatever the others could add; the text counts invalid ones, too.
    """

    of_run: bool = False
    shows_episodes: bool = True
    name = "sum"
    is_estimated = False
    counts_events = True

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        values = {episode.episode: figure.value(episode) for episode in arm.valid.episodes}
        count = sum(number for number, _ in values.values())
        is_open = any(more for _, more in values.values()) or (arm.valid.missing > 0 and not self.of_run)
        bounds = _from(count, is_open)
        invalid = [each for each in arm.episodes if each.judged.outcome == "invalid"] if self.of_run else []
        left_out = sum(figure.value(episode)[0] for episode in invalid)
        note = f"and {left_out} in invalid episodes" if left_out else ""
        showing = tuple(key for key, (number, _) in values.items() if number and self.shows_episodes)
        return Measure(bounds, note, showing)


def planned_episodes(arm: ArmFacts) -> int:
    return max(len(arm.episodes), arm.planned)


# shares


class _Share(Estimator):
    high = 1.0

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        return RateOfParts(dict.fromkeys(keys, (int(figure.better != "lower"), 0, 1)), population)


class ShareOfPlanned(_Share):
    """Of the planned episodes; ``value`` is whether it is true of an episode, None while open."""

    name = "rate, exact interval"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        outcomes = {episode.episode: figure.value(episode) for episode in arm.episodes}
        estimate = Rate(outcomes, terms.population, max(arm.missing, 0))
        showing = tuple(
            key for key, outcome in outcomes.items() if outcome is not (figure.better == "higher")
        )
        return replace(measure_of_rate(estimate), episodes=showing)

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        return Rate(dict.fromkeys(keys, figure.better != "lower"), population)


def measure_of_rate(rate: Rate) -> Measure:
    """No data without episodes, and no range in words if each could be either."""
    if not rate.n:
        return Measure(None, estimate=rate)
    share = _share_of(rate.successes, rate.open, rate.n)
    reason = NOT_JUDGED if rate.open == rate.n else ""
    return Measure(*share, estimate=rate, reason=reason, with_interval=True, unit="share")


def _share_of(known: int, could: int, n: int, what: str = "") -> tuple[Bounds, str]:
    """The bounds of a share, and its note: ``(2 to 3 of 4 calls)``."""
    bounds = Bounds(Fraction(known, n), Fraction(known + could, n))
    return bounds, f"({bounds_text(Bounds(known, known + could))} of {n}{what})"


class ShareOfJudged(_Share):
    """Of the episodes that are not open, and without an interval: it describes these."""

    name = "share of these"
    is_estimated = False

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        values = {episode.episode: figure.value(episode) for episode in arm.episodes}
        judged = Share.of(values.values())
        if not judged.n:
            return Measure(None, reason="no data: no episode could be judged")
        return Measure(*_share_of(judged.k, 0, judged.n, " judged"), _keys(values, False))


@dataclass(frozen=True)
class ShareOfAsked(ShareOfPlanned):
    """Of the episodes that ask for it; ``value`` lists what is true or open, if anything is asked."""

    without: str = "no oracle asks for it in an episode"
    """Why there may be none."""
    of_reached: bool = False
    name = "rate, exact interval, of such episodes"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        episodes = _reached(arm) if self.of_reached else arm.valid.episodes
        outcomes = {e.episode: value[0] for e in episodes if (value := figure.value(e))}
        if not outcomes:
            why = f"no data: {self.without}{' that a fault reached' * self.of_reached}"
            return Measure(None, reason=why if episodes else NOT_REACHED)
        estimate = Rate(outcomes, terms.population, max(arm.valid.missing, 0))
        share = _share_of(estimate.successes, estimate.open, estimate.n, " episodes")
        return Measure(*share, _keys(outcomes, figure.better == "lower"), estimate=estimate)


class OverRepeats(_Share):
    """Of the repeats of each prompt; the figure's name says how many tries at a prompt it needs."""

    name = "by prompt, from its repeats"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        outcomes = {episode.episode: figure.value(episode) for episode in arm.episodes}
        estimate = OverTries(figure.name, outcomes, terms.population, max(arm.missing, 0))
        if estimate.ends is None:
            reason = f"no data: no prompt was tried {tries_needed(figure.name)} times"
            return Measure(None, reason=reason)
        counts = f"({estimate.prompts} prompt{'s' if estimate.prompts != 1 else ''}, {estimate.n} tries)"
        failed = tuple(key for key, outcome in outcomes.items() if outcome is not True)
        return Measure(estimate.ends, counts, failed, estimate=estimate, with_interval=True)

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        return OverTries(figure.name, dict.fromkeys(keys, True), population)


@dataclass(frozen=True)
class ShareOfParts(_Share):
    """Of parts of valid episodes; ``value`` lists what is true, false or open.

    Open if an episode is missing or hides some. ``without``: why there may be no ``parts``.
    """

    parts: str
    without: str
    hidden: str = "all requests"
    of_reached: bool = False
    name = "rate, clustered by episode"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        episodes = _reached(arm) if self.of_reached else arm.valid.episodes
        values = {each.episode: figure.value(each) for each in episodes}
        reached = tuple(values) if self.of_reached else ()
        parts = {key: (value.count(True), value.count(None), len(value)) for key, value in values.items()}
        known, could, n = (sum(each[i] for each in parts.values()) for i in range(3))
        if not n:
            return Measure(None, reason=f"no data: {self.without}", reached=reached)
        lost = tuple(key for key, value in values.items() if False in value)
        if arm.valid.missing > 0 or not all(each.tries.whole for each in episodes):
            reason = f"{_HIDDEN} {self.hidden} ({known} of {n} {self.parts} in the others)"
            return Measure(Bounds(0, 1), "", lost, reason=reason, reached=reached)
        share, estimate = _share_of(known, could, n, f" {self.parts}"), RateOfParts(parts, terms.population)
        return Measure(*share, lost, estimate=estimate, reached=reached)


# means and percentiles


Values = Mapping[str, float]


@dataclass(frozen=True)
class MeanOfEpisodes(Estimator):
    """Over the valid episodes. ``value`` is a number, None if there is none of it, or why it is not known.

    ``rare``: most values may be 0; the episodes with others show it. ``note``: of its measure.
    """

    rare: bool = False
    note: Callable[[Sequence[EpisodeFacts], Values], str] = lambda *_: ""
    name = "mean per episode, bootstrap"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        episodes, missing = arm.valid.episodes, max(arm.valid.missing, 0)
        values = {episode.episode: figure.value(episode) for episode in episodes}
        if why := next((value for value in values.values() if isinstance(value, str)), ""):
            return Measure(None, reason=why)
        if all(value is None for value in values.values()):
            return Measure(None)
        values = {key: float(value or 0) for key, value in values.items()}
        mean = math.fsum(values.values()) / (len(values) + missing)
        sums = {key: (value, 1.0) for key, value in values.items()}
        showing = tuple(key for key, value in values.items() if value and self.rare)
        estimate = Mean(sums, terms.population, missing, rare=self.rare)
        return Measure(_from(mean, missing > 0), self.note(episodes, values), showing, estimate=estimate)


def tries_note(episodes: Sequence[EpisodeFacts], costs: Values) -> str:
    """How many tries failed, and in how many episodes, if they are few."""
    failed, tries = (sum(getattr(each.tries, which) for each in episodes) for which in ("failed", "tries"))
    return f"({failed} of {tries} tries failed{_rarely(costs, episodes)})"


def overshoot_note(_: Sequence[EpisodeFacts], shares: Values) -> str:
    return f"beyond the budget{_rarely(shares)}"


def _rarely(costs: Values, tried: Iterable[EpisodeFacts] = ()) -> str:
    """Say in how many episodes, if they are few. ``tried``: with the failed tries that the costs are of."""
    costly = sum(map(bool, costs.values()))
    if costly >= MIN_SEEN:
        return ""
    failed = sum(bool(episode.tries.failed) for episode in tried)
    cost = f", with a cost in {costly}" if failed > costly else ""
    return f", in {failed or costly} of {len(costs)} episodes{cost}"


@dataclass(frozen=True)
class PercentileOfParts(Estimator):
    """Of the numbers that ``value`` lists; an episode that shows nothing counts as one of them."""

    percent: int
    name = "percentile, clustered by episode"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        by_episode = {episode.episode: figure.value(episode) for episode in arm.valid.episodes}
        values = [each for of_episode in by_episode.values() for each in of_episode]
        if not values:
            return Measure(None)
        unknown = max(arm.valid.missing, 0)
        low, high = (
            percentile([*values, *([end] * unknown)], self.percent) or 0.0 for end in (0.0, math.inf)
        )
        estimate = Percentile(by_episode, self.percent, unknown, terms.population)
        return Measure(Bounds(low, high), estimate=estimate)

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        return Percentile(dict.fromkeys(keys, (0.0,)), self.percent, 0, population)


class MeanTime(Estimator):
    """Mean seconds of the outages that ``value`` lists.

    One that did not end within its episode is censored (E. L. Kaplan and P. Meier, "Nonparametric Estimation
    from Incomplete Observations", 1958): its observed time is a lower bound, and the mean has no upper bound.
    Leaving it out would reward giving up.
    """

    name = "ratio of sums, bootstrap"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        by_episode = _outages(figure, arm)
        outages = [outage for each in by_episode.values() for outage in each]
        if not outages:
            return Measure(None, reason="no data: nothing failed")
        recovered = sum(outage.end == "recovered" for outage in outages)
        ends, censored = f"{recovered} of {len(outages)} recovered", recovered < len(outages)
        if not arm.shows_all_outages:
            reason = f"{_HIDDEN} what failed in it ({ends} in the others)"
            return Measure(Bounds(0, math.inf), reason=reason)
        mean = mean_time([Duration(each.seconds, each.end == "recovered") for each in outages]) or 0.0
        sums = {key: (sum(o.seconds for o in each), float(len(each))) for key, each in by_episode.items()}
        estimate = Mean(sums, terms.population, censored=censored)
        return Measure(_from(mean, censored), f"({ends})", _lost(by_episode), estimate=estimate)


@dataclass(frozen=True)
class PercentileOfTimes(Estimator):
    """Of the seconds of the outages that ``value`` lists; those that lasted are censored (Kaplan-Meier)."""

    percent: int
    name = "Kaplan-Meier, clustered by episode"

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        outages = _outages(figure, arm)
        times = {
            key: [Duration(o.seconds, o.end == "recovered") for o in each] for key, each in outages.items()
        }
        estimate = TimePercentile(times, self.percent, terms.population)
        if not estimate.n:
            return Measure(None, reason="no data: nothing failed")
        if not arm.shows_all_outages:
            return Measure(Bounds(0, math.inf), reason=f"{_HIDDEN} what failed in it")
        note = f"({estimate.n} failures)"
        return Measure(estimate.bounds, note, _lost(outages), estimate=estimate)

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        times = dict.fromkeys(keys, (Duration(0.0, ended=True),))
        return TimePercentile(times, self.percent, population)


_Outages = Mapping[str, Sequence[Interruption]]


def _outages(figure: Figure, arm: ArmFacts) -> _Outages:
    return {episode.episode: figure.value(episode) for episode in arm.valid.episodes}


def _lost(outages: _Outages) -> tuple[str, ...]:
    return tuple(key for key, each in outages.items() if any(o.end != "recovered" for o in each))


class PerCall(Estimator):
    """Requests by calls; ``value`` is an episode's number of both."""

    name = "ratio of sums, bootstrap"
    low = 1.0

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        sums = {e.episode: figure.value(e) for e in arm.valid.episodes}
        requests, calls = (sum(each[side] for each in sums.values()) for side in (0, 1))
        if not calls:
            return Measure(None, reason="no data: nothing was called")
        is_open = arm.valid.missing > 0 or not all(e.tries.whole for e in arm.valid.episodes)
        return self._ratio(
            sums,
            f"{counted(requests, 'request')} for {counted(calls, 'call')}",
            terms,
            is_open=is_open,
        )

    def _ratio(
        self, sums: Mapping[str, tuple[float, float]], why: str, terms: Terms, *, is_open: bool
    ) -> Measure:
        showing = tuple(key for key, (requests, calls) in sums.items() if requests > calls)
        if is_open:
            return Measure(Bounds(1, math.inf), "", showing, reason=f"{_HIDDEN} all requests ({why})")
        requests, calls = (math.fsum(each[side] for each in sums.values()) for side in (0, 1))
        estimate = Mean(sums, terms.population, lowest=self.low)
        return Measure(exactly(requests / calls), f"({why})", showing, estimate=estimate)


class Amplification(PerCall):
    """The same of failed calls, which are ``value``.

    No data without failures; open if an episode may hide a failure or a repetition.
    """

    def measure(self, figure: Figure, arm: ArmFacts, terms: Terms) -> Measure:
        calls: dict[str, FailedCalls] = {e.episode: figure.value(e) for e in arm.valid.episodes}
        failed = sum(calls.values(), FailedCalls())
        if not failed.calls:
            return Measure(None, reason="no data: nothing failed")
        by = ", ".join(f"{count} {BY_LAYER[layer]}" for layer, count in failed.repeated_by.items())
        again = f"; sent again: {by}" if by else ", none sent again"
        requests = counted(failed.requests, "request")
        why = f"{requests} for {counted(failed.calls, 'failed call')}{again}"
        sums = {key: (float(each.requests), float(each.calls)) for key, each in calls.items()}
        return self._ratio(sums, why, terms, is_open=not failed.whole or arm.valid.missing > 0)


def _from(known: float, is_open: bool) -> Bounds:
    """Bounds of a figure that may be higher than is known if it ``is_open``."""
    return Bounds(known, math.inf if is_open else known)


def _reached(arm: ArmFacts) -> list[EpisodeFacts]:
    return [episode for episode in arm.valid.episodes if episode.judged.delivered()]


def _keys(values: Mapping[str, Truth], wanted: Truth) -> tuple[str, ...]:
    return tuple(key for key, value in values.items() if value is wanted)
