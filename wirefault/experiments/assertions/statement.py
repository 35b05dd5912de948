"""Statements about one episode, in the language of hypotheses: ``tokens <= 50000 and model_calls <= 4``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.assertion import SummableLimit
from wirefault.experiments.episode_view import EpisodeView
from wirefault.experiments.expression import Expression, ExpressionError, parse_expression
from wirefault.experiments.figures import OF_EPISODES
from wirefault.experiments.measured import Measured
from wirefault.judging.checker import CheckResult

_BY_LINK = ("failed_calls", "faults_delivered")


def _checked_statement(text: str) -> str:
    for form, name in _parsed(text).forms:
        raise ValueError(f"{form}({name}) is of an arm: state it in `checks`, without `statement`")
    for name in _parsed(text).names:
        if name not in OF_EPISODES:
            raise ValueError(f"unknown measure {name}{nearest(name, OF_EPISODES)}")
    return text


def _parsed(text: str) -> Expression:
    try:
        return parse_expression(text)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


class Statement(SummableLimit):
    """The statement is true. A text with a comparison is a statement too: `tokens <= 50000`."""

    name = "statement"
    main = "text"
    needs = "see the measures below"
    link_keys = ("link",)

    text: Annotated[str, AfterValidator(_checked_statement)] = Field(
        description="a comparison of the measures below"
    )
    link: str = Field("", description="for failed_calls and faults_delivered: on this link only")
    kind: str = Field("", description="for faults_delivered: of this kind only, such as rate_limit")

    @property
    def names(self) -> tuple[str, ...]:
        """The measures in the statement."""
        return _parsed(self.text).names

    @property
    def expected(self) -> str:
        return self.text

    def figures(self, view: EpisodeView) -> tuple[Measured, ...]:
        functions = (OF_EPISODES[name].of_one for name in self.names)
        return tuple(each(view, self.link, self.kind) for each in functions if each)

    def judged(self, figures: Sequence[Measured]) -> CheckResult:
        named = dict(zip(self.names, figures, strict=True))
        passed = _parsed(self.text).holds({name: figure.bounds for name, figure in named.items()})
        gaps = dict.fromkeys(figure.gap for figure in figures if figure.gap)
        return CheckResult(
            passed=passed,
            measured=", ".join(f"{name} {figure.text}" for name, figure in named.items()),
            message="; ".join(gaps) if passed is None else "",
            evidence=tuple(dict.fromkeys(id for figure in figures for id in figure.evidence)),
        )

    @model_validator(mode="after")
    def _fits_its_measures(self) -> Statement:
        if self.turn is not None and "faults_delivered" in self.names:
            raise ValueError("turn: faults are counted in whole episodes")
        if self.over == "arm" and "call_tokens" in self.names:
            raise ValueError("over: arm sums, and call_tokens is of single calls")
        if self.link and not set(self.names) & set(_BY_LINK):
            raise ValueError(f"link: restricts {' and '.join(_BY_LINK)} only")
        if self.kind and "faults_delivered" not in self.names:
            raise ValueError("kind: restricts faults_delivered only")
        return self
