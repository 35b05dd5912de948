"""The base of assertions: a requirement on an episode, checked on its view. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.expression import COMPARISONS, Bounds, ShareOfEpisodes, Truth, exactly
from wirefault.judging.checker import CheckResult
from wirefault.wiring.spec_file import Spec


@dataclass(frozen=True)
class Figure:
    """A number within bounds. ``gap`` says why it is not exact; ``evidence`` has the ids of the counted
    events.
    """

    low: float
    high: float
    evidence: tuple[str, ...] = ()
    gap: str = ""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.low, self.high)

    @property
    def text(self) -> str:
        """For people."""
        if self.low == self.high:
            return f"{self.low:g}"
        return f"{self.low:g} or more" if self.high == math.inf else f"{self.low:g} to {self.high:g}"

    def at_most(self, limit: float) -> Truth:
        """Whether it is certainly at most the limit."""
        return COMPARISONS["<="](self.bounds, exactly(limit))

    def at_least(self, limit: float) -> Truth:
        """Whether it is certainly at least the limit."""
        return COMPARISONS[">="](self.bounds, exactly(limit))


def figure_of(low: float, evidence: Iterable[str] = (), gap: str = "") -> Figure:
    """A figure; only a lower bound if there is a gap."""
    return Figure(low, math.inf if gap else low, tuple(dict.fromkeys(evidence)), gap)


def total(figures: Iterable[Figure], others: str = "") -> Figure:
    """The sum. ``others`` says why further, unknown figures belong to it; empty if none do."""
    summed = list(figures)
    high = math.inf if others else sum(figure.high for figure in summed)
    evidence = dict.fromkeys(id for figure in summed for id in figure.evidence)
    gap = next(filter(None, (others, *(figure.gap for figure in summed))), "")
    return Figure(sum(figure.low for figure in summed), high, tuple(evidence), gap)


Over = Literal["episode", "arm"]


class Assertion(Spec):
    """One kind of assertion. The docstring's first sentence is its row in the reference.

    ``name`` is its key in an experiment, ``main`` the parameter for a lone value. ``needs`` says what the
    history must have. ``link_keys`` and ``tool_keys`` are the parameters that name links and tools.
    """

    name: ClassVar[str]
    main: ClassVar[str] = ""
    needs: ClassVar[str]
    link_keys: ClassVar[tuple[str, ...]] = ()
    tool_keys: ClassVar[tuple[str, ...]] = ()

    turn: int | Literal["each"] | None = Field(
        None,
        description="check only this user turn, counted from 1, or each turn; by default the whole episode",
    )
    episodes: ShareOfEpisodes = Field(1.0, description="the share of the episodes in which it must pass")

    @property
    def expected(self) -> str:
        """The requirement, for people."""
        raise NotImplementedError

    def check(self, view: EpisodeView) -> CheckResult:
        """Check an episode or a turn. Raises ``NotRecorded`` or ``NothingToJudge``."""
        raise NotImplementedError

    def beside_control(self, result: CheckResult, usual: Mapping[str, frozenset[str]]) -> CheckResult:
        """The result of an episode beside its control, which repeats some requests as often.

        ``usual``: the ids of the events that show them, by the rule that does not count them.
        """
        return result

    @model_validator(mode="after")
    def _turn_counts_from_one(self) -> Assertion:
        if isinstance(self.turn, int) and self.turn < 1:
            raise ValueError("turn: user turns count from 1")
        return self


class Limit(Assertion):
    """An assertion on figures; bounds are enough where they decide."""

    def figure(self, view: EpisodeView) -> Figure:
        """The figure of an episode or a turn. Raises ``NotRecorded`` or ``NothingToJudge``."""
        raise NotImplementedError

    def figures(self, view: EpisodeView) -> tuple[Figure, ...]:
        """All figures, if there are several. Raises as ``figure`` does."""
        return (self.figure(view),)

    def holds(self, figure: Figure) -> Truth:
        """Whether the figure is within the limit for certain."""
        raise NotImplementedError

    def check(self, view: EpisodeView) -> CheckResult:
        return self.judged(self.figures(view))

    def judged(self, figures: Sequence[Figure]) -> CheckResult:
        """The result of these figures."""
        [figure] = figures
        passed = self.holds(figure)
        message = figure.gap if passed is None else ""
        return CheckResult(passed=passed, measured=figure.text, message=message, evidence=figure.evidence)


class SummableLimit(Limit):
    """A limit on figures that can be summed over all episodes of an arm."""

    over: Over = Field("episode", description="each episode, or the sum over an arm")

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> SummableLimit:
        if self.over == "arm" and (self.turn is not None or self.episodes != 1):
            raise ValueError("over: arm is one figure for all episodes, without `turn` and `episodes`")
        return self
