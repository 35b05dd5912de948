"""The base of assertions: a requirement on an episode, checked on its view. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from wirefault.experiments.episode_view import EpisodeView
from wirefault.experiments.expression import ShareOfEpisodes, Truth
from wirefault.experiments.measured import Measured
from wirefault.judging.checker import CheckResult
from wirefault.wiring.spec_file import Spec

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

    def figure(self, view: EpisodeView) -> Measured:
        """The figure of an episode or a turn. Raises ``NotRecorded`` or ``NothingToJudge``."""
        raise NotImplementedError

    def figures(self, view: EpisodeView) -> tuple[Measured, ...]:
        """All figures, if there are several. Raises as ``figure`` does."""
        return (self.figure(view),)

    def holds(self, figure: Measured) -> Truth:
        """Whether the figure is within the limit for certain."""
        raise NotImplementedError

    def check(self, view: EpisodeView) -> CheckResult:
        return self.judged(self.figures(view))

    def judged(self, figures: Sequence[Measured]) -> CheckResult:
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
