"""The statements of a hypothesis and their kinds: checks of the episodes that ran, and claims. Pure.

    no duplicate                        a check: one counterexample refutes it
    no duplicate within 5 %             a check that needs the n that rules out 5 %
    success == all                      a check
    success_rate >= 0.9                 a claim: an interval decides
    rate(completes) >= 0.9              a claim about the share of the episodes that pass a check
    mean(seconds) <= 30                 a claim about a mean
    success_rate >= 0.9 where faulted   only the episodes for which a fault was planned

`and` joins statements that are judged one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.registry import rated_check
from wirefault.experiments.estimates import Population, Terms, smallest
from wirefault.experiments.estimators import Estimator, MeanOfEpisodes, Sum
from wirefault.experiments.expression import (
    RATE,
    Bounds,
    Expression,
    ExpressionError,
    Truth,
    parse_expression,
    quantity_of,
)
from wirefault.experiments.figures import (
    DEGRADATION,
    OF_EPISODES,
    best_case,
    count_in,
    figure_named,
    is_estimated,
    is_pass,
    known_names,
    unit_of,
)
from wirefault.experiments.measure import Measure, Number, finite, in_unit
from wirefault.experiments.tries import MAX_K, tries_needed
from wirefault.stats.exact import episodes_to_rule_out, ruled_out_above
from wirefault.stats.rates import percent

Kind = Literal["check", "claim"]
_WHERE = re.compile(r"\s+where\s+(\S+)$")
_WITHIN = re.compile(r"no\s+([a-z_]\w*)\s+within\s+(.+)")
_MAX_PROMPTS = 2**17
_FORMS: Mapping[str, tuple[type[Estimator], str]] = {
    "mean": (MeanOfEpisodes, "a mean per episode"),
    "sum": (Sum, "a sum over the episodes"),
}
SEQUENTIAL = ("success_rate", "p50", "p95", "p99", DEGRADATION)
"""The measures that sequential tests can decide."""


@dataclass(frozen=True)
class Statement:
    """One statement about an arm.

    ``faulted``: only about the episodes for which a fault was planned. ``within``: the rate that the episodes
    must rule out.
    """

    text: str
    expression: Expression
    kind: Kind
    faulted: bool = False
    within: float | None = None

    @property
    def event(self) -> str:
        """The count that must be none, where that is what it states; else empty."""
        comparison = self.expression.comparison
        if comparison is None:
            return "failures" if self.expression.text in ("success == all", "success >= all") else ""
        none = (comparison.sign in ("==", "<=") and not comparison.threshold) or (
            comparison.sign == "<" and 0 < comparison.threshold <= 1
        )
        figure = figure_named(comparison.measure)
        return figure.name if none and figure and figure.counts_events else ""


@cache
def parse_statements(text: str) -> tuple[Statement, ...]:
    """Parse a text of a hypothesis: one statement, or several joined by `and`. Raises ``ExpressionError``."""
    plain, where = text.strip(), _WHERE.search(text.strip())
    if where:
        if where[1] != "faulted":
            raise ExpressionError(f"where must be followed by `faulted`, not {where[1]!r:.40}")
        plain = plain[: where.start()]
    suffix = " where faulted" if where else ""
    if within := _WITHIN.fullmatch(plain):
        rate = quantity_of(within[2], "%")
        if not 0 < rate < 1:
            raise ExpressionError(f"within must be followed by a share such as 5 %, not {within[2]!r:.40}")
        expression = parse_expression(f"no {within[1]}")
        figure = figure_named(within[1])
        if figure is None or not figure.counts_events:
            raise ExpressionError(f"within: {within[1]} is not a count of episodes")
        return (Statement(f"{plain}{suffix}", expression, "check", bool(where), rate),)
    parsed = map(parse_expression, parse_expression(plain).conjuncts())
    return tuple(_statement(expression, suffix) for expression in parsed)


def _statement(expression: Expression, suffix: str) -> Statement:
    for form, name in expression.forms:
        figure, (kind, what) = figure_named(name), _FORMS[form]
        if not isinstance(figure.estimator if figure else OF_EPISODES.get(name), kind | None):
            raise ExpressionError(f"{form}({name}): {name} is not {what}")
    estimated = [name for name in expression.names if is_estimated(name)]
    if equal := [name for name in estimated if name in expression.equalities]:
        raise ExpressionError(
            f"{equal[0]} is estimated, so == and != cannot be decided: use >= or <=, or a check"
            " of a count such as success == all"
        )
    for limit in expression.limits:
        figure, number = figure_named(limit.measure), float(limit.threshold)
        low, high = (figure.estimator.low, figure.estimator.high) if figure else (-math.inf, math.inf)
        if not low <= number <= high:
            end = f"at most {high:g}" if number > high else f"at least {low:g}"
            meant = (
                f"; did you mean {number:g} %?"
                if unit_of(limit.measure) == "share" and 1 < number <= 100
                else ""
            )
            raise ExpressionError(f"{limit.measure} is {end}, not {number:g}{meant}")
    return Statement(
        f"{expression.text}{suffix}", expression, "claim" if estimated else "check", bool(suffix)
    )


def checked_text(text: str, *, with_control: bool) -> str:
    """The text of a hypothesis whose statements and measures are known. Raises ``ValueError``."""
    known = known_names(with_control=with_control)
    try:
        statements = parse_statements(text)
    except ExpressionError as error:
        raise ValueError(f"{text!r}: {error}") from None
    for statement in statements:
        if statement.faulted and not with_control:
            raise ValueError(f"{text!r}: the control has no faults, so leave `where faulted` out")
        for name in statement.expression.names:
            plain = name.removeprefix("control_") if with_control else name
            if name in known or is_pass(plain) or count_in(name):
                continue
            if name.startswith(RATE):
                rated_check(name)
                continue
            if name in OF_EPISODES:
                how = "alone, or join it by `and`" if with_control else f"as rate({name} <= 4) >= 90 %"
                raise ValueError(f"{text!r}: {name} is of one episode: state it {how}")
            if plain.startswith(("pass^", "pass@")):
                raise ValueError(f"{text!r}: k of {name} must be 1 to {MAX_K}")
            raise ValueError(f"{text!r}: {name} is not a measure{nearest(name, (*known, *OF_EPISODES))}")
    return text


def statement_text(value: Any) -> Any:
    """``{statement: TEXT, where: faulted}`` as a text; any other value as it is."""
    if isinstance(value, Mapping) and value.keys() == {"statement", "where"}:
        return f"{value['statement']} where {value['where']}"
    return value


@dataclass(frozen=True)
class ClaimFigures:
    """The figures of a claim; ``measure`` is empty if it compares more than one measure with one number."""

    measure: str
    comparator: str
    threshold: float | None
    population: Population
    confidence: float
    """Of the interval that decided, two-sided."""
    estimate: float | None
    low: float | None
    high: float | None
    n: int
    needed: int | None
    """The n at which this estimate would decide; None if it is decided, or if no n would."""


@dataclass(frozen=True)
class Claim:
    """A statement with the measures that it is about."""

    statement: Statement
    measures: Mapping[str, Measure]
    terms: Terms

    @property
    def _estimated(self) -> list[str]:
        return [name for name in self.statement.expression.names if is_estimated(name)]

    def truth(self, error: float) -> Truth:
        """Whether it holds, with this error on each side, which several estimates share."""
        bounds = {name: self._bounds(name, error) for name in self.statement.expression.names}
        return self.statement.expression.holds(bounds)

    def _bounds(self, name: str, error: float) -> Bounds:
        measure = self.measures[name]
        if measure.estimate is not None:
            return measure.estimate.interval(error / len(self._estimated))
        assert measure.bounds is not None
        return measure.bounds

    def needed(self) -> int | None:
        """The n at which these estimates would decide; None if none would, or if that is not known."""
        comparison = self.statement.expression.comparison
        if comparison is None:
            return None
        estimate = self.measures[comparison.measure].estimate
        if estimate is None:
            return None
        return estimate.needed(comparison.sign, float(comparison.threshold), self.terms.error)

    def figures(self, error: float, truth: Truth) -> ClaimFigures:
        """Its figures at this error on each side."""
        comparison = self.statement.expression.comparison
        name = comparison.measure if comparison else self._estimated[0]
        estimate = self.measures[name].estimate
        interval = self._bounds(name, error)
        return ClaimFigures(
            measure=name if comparison else "",
            comparator=comparison.sign if comparison else "",
            threshold=float(comparison.threshold) if comparison else None,
            population=self.terms.population,
            confidence=round(1 - 2 * error, 6),
            estimate=finite(estimate.value) if comparison and estimate else None,
            low=finite(interval.low) if comparison else None,
            high=finite(interval.high) if comparison else None,
            n=estimate.n if estimate else 0,
            needed=self.needed() if truth is None else None,
        )

    def numbers(self, error: float) -> dict[str, Number]:
        """Each measure, with its interval at this error on each side, which several estimates share."""
        share = error / len(self._estimated)
        names = self.statement.expression.names
        return {name: _claimed(name, replace(self.measures[name], error=share)) for name in names}


def _claimed(name: str, measure: Measure) -> Number:
    if measure.interval is None or measure.reason:
        return Number.of(name, measure)
    low, high = (in_unit(end, measure.unit) for end in measure.interval)
    ends = f"{low} to {high}" if math.isfinite(measure.interval[1]) else f"{low} or more"
    sure = f"{percent(round(1 - 2 * measure.error, 6))} interval {ends}"
    return Number.of(name, measure, f"{measure.figure}, {sure}, n = {measure.n}")


def none_failed_in(passed: int, error: float) -> str:
    """The rate of failures that an assertion rules out by passing in so many episodes."""
    if passed <= 0:
        return ""
    return _ruled_out("none failed", passed, error)


def _ruled_out(none: str, n: int, error: float) -> str:
    return f"{none} in {n}: rates above {percent(ruled_out_above(n, error), decimals=0)} are ruled out"


def none_in(statement: Statement, n: int, error: float) -> str:
    """The rate that a check rules out by none in ``n``; empty for other statements."""
    if not statement.event or n <= 0:
        return ""
    none = "none failed" if statement.event == "failures" else "none"
    return _ruled_out(none, n, error)


def episodes_for_within(statement: Statement, error: float) -> int:
    """The episodes that a ``within`` needs; 0 without one."""
    return episodes_to_rule_out(statement.within, error) if statement.within else 0


def undecidable(statement: Statement, prompts: int, repeats: int, terms: Terms) -> str:
    """Why this many episodes cannot show the statement even if every episode succeeded; empty if they can."""
    episodes = prompts * repeats
    unit, have = ("episodes", episodes) if terms.population == "these" else ("prompts", prompts)
    plan = f"this plan has {have}"
    if statement.within:
        needs = episodes_for_within(statement, terms.error)
        if have >= needs:
            return ""
        more = f"use repeats: {math.ceil(needs / prompts)}" if unit == "episodes" else "add prompts"
        return f"{statement.text} needs at least {needs} {unit}, {plan}: {more}, or no {statement.event}"
    if statement.kind == "check" or _best_case(statement, prompts, repeats, terms) is not None:
        return ""
    check, tries = _check_in_place_of(statement), _tries_needed(statement)
    if unit == "prompts" and repeats < tries:
        return f"{statement.text} needs {tries} repeats of each prompt, this plan has {repeats}"
    size = _smallest_decisive(statement, prompts, repeats, terms)
    if size is None:
        return f"{statement.text} cannot hold for any number of episodes: use a margin, or {check}"
    if unit == "prompts":
        return f"{statement.text} needs at least {size} prompts, {plan}: add prompts, or use {check}"
    comparison = statement.expression.comparison
    is_sequential = comparison is not None and comparison.measure in SEQUENTIAL
    until_decided = " --until-decided," if is_sequential else ""
    return (
        f"{statement.text} needs at least {size} episodes, {plan}: use repeats: {math.ceil(size / prompts)},"
        f"{until_decided} or {check}"
    )


def _check_in_place_of(statement: Statement) -> str:
    names = {name.removeprefix("control_") for name in statement.expression.names}
    if names & {"success_rate", DEGRADATION} or _tries_needed(statement):
        return "success == all"
    if rates := [name for name in names if name.startswith(RATE)]:
        checked, count = rates[0].removeprefix(RATE)[:-1], count_in(rates[0])
        return checked if count is None else f"no {checked}"
    return "an assertion on each episode"


def _tries_needed(statement: Statement) -> int:
    """The tries at a prompt that its measures need; 0 if they need no repeats."""
    return max(tries_needed(name.removeprefix("control_")) for name in statement.expression.names)


def _smallest_decisive(statement: Statement, prompts: int, repeats: int, terms: Terms) -> int | None:
    """The smallest number of episodes, or of prompts, whose best case decides."""

    def decides(prompts: int, repeats: int = 1) -> bool:
        return _best_case(statement, prompts, repeats, terms) is not None

    tries = _tries_needed(statement)
    if terms.population != "these":
        return smallest(
            lambda size: decides(size, max(repeats, tries) if tries else 1), prompts, _MAX_PROMPTS
        )
    if not tries:
        return smallest(decides, prompts * repeats, _MAX_PROMPTS)
    times = smallest(lambda times: decides(prompts, times), max(repeats, tries), _MAX_PROMPTS // prompts)
    return times and times * prompts


def _best_case(statement: Statement, prompts: int, repeats: int, terms: Terms) -> Truth:
    """The claim's verdict if every episode succeeds at once and at no cost."""
    keys = [
        key if n == 1 else f"{key}.r{n}" for n in range(1, repeats + 1) for key in map(str, range(prompts))
    ]
    measures = {name: best_case(name, keys, terms.population) for name in statement.expression.names}
    return Claim(statement, measures, terms).truth(terms.error)
