"""All that must hold, in one notation. Pure.

    completes                   an assertion on each episode
    seconds <= 30               a comparison of an episode's figures, in each episode
    no duplicate                a statement about the episodes of an arm
    rate(completes) >= 0.9      a claim about a rate
    mean(seconds) <= 30         a claim about a mean

``checks`` has them; ``hypothesis`` and ``assertions`` are other names of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, WithJsonSchema

from wirefault.experiments.assertions.registry import (
    AssertionEntry,
    entry_of,
    entry_schema,
    looks_like_statement,
)
from wirefault.experiments.expression import RATE, ExpressionError, parse_expression
from wirefault.experiments.figures import OF_EPISODES, count_in, figure_named
from wirefault.experiments.hypothesis import checked_text, parse_statements, statement_text

KEYS = ("hypothesis", "assertions", "checks")
"""The names of the list in a file."""
_WHERE_SCHEMA = {
    "type": "object",
    "properties": {"statement": {"type": "string"}, "where": {"const": "faulted"}},
    "required": ["statement", "where"],
    "additionalProperties": False,
}


def check_of(value: Any) -> Any:
    """A check as a file has it. Raises ``ValueError`` for anything else."""
    value = statement_text(value)
    is_measure = isinstance(value, str) and (figure_named(value) or value in OF_EPISODES)
    if not (is_measure or (isinstance(value, str) and looks_like_statement(value))):
        return entry_of(value)
    for part in _parts(value):
        if not _compares_episodes(part):
            checked_text(part, with_control=True)
    return value


Check = Annotated[
    Any,
    BeforeValidator(check_of),
    WithJsonSchema({"anyOf": [*entry_schema()["anyOf"], _WHERE_SCHEMA]}),
]


AnotherName = Annotated[Any, BeforeValidator(check_of), WithJsonSchema({"type": ["string", "object"]})]
"""The same, for the other names of ``checks``."""


class HasChecks(Protocol):
    """An experiment, or an arm with its further checks."""

    @property
    def hypothesis(self) -> Sequence[Any]: ...
    @property
    def assertions(self) -> Sequence[Any]: ...
    @property
    def checks(self) -> Sequence[Any]: ...


def has_checks(spec: HasChecks) -> bool:
    return bool(spec.hypothesis or spec.assertions or spec.checks)


def statements_in(spec: HasChecks) -> list[str]:
    """The checks that are about an arm."""
    return [part for _, part in _each(spec) if not is_of_episode(part)]


def episode_checks_in(spec: HasChecks) -> Iterator[tuple[tuple[str, int], AssertionEntry]]:
    """The checks that are about each episode, with their places."""
    return ((place, part) for place, part in _each(spec) if is_of_episode(part))


def rates_in(spec: HasChecks) -> Iterator[tuple[tuple[str, int], str]]:
    """Each ``rate(CHECK)`` of its statements, with the statement's place."""
    for place, part in _each(spec):
        if not is_of_episode(part):
            names = (name for each in parse_statements(part) for name in each.expression.names)
            yield from ((place, name) for name in names if name.startswith(RATE) and not count_in(name))


def place_of(spec: HasChecks, statement: str) -> tuple[str, int] | None:
    """Where the statement is; None if the spec does not have it."""
    return next((place for place, part in _each(spec) if part == statement), None)


def _each(spec: HasChecks) -> Iterator[tuple[tuple[str, int], Any]]:
    for key in KEYS:
        for number, check in enumerate(getattr(spec, key)):
            for part in _parts(check) if isinstance(check, str) else [check]:
                yield (key, number), part


def is_of_episode(check: Any) -> bool:
    """Whether the check is about each episode, not about the arm."""
    return not (isinstance(check, str) and looks_like_statement(check)) or _compares_episodes(check)


@cache
def _compares_episodes(text: str) -> bool:
    """Whether it compares figures of an episode alone."""
    try:
        expression = parse_expression(text)
    except ExpressionError:
        return False
    return bool(expression.names) and not expression.forms and OF_EPISODES.keys() >= set(expression.names)


@cache
def _parts(text: str) -> Sequence[str]:
    """The parts that `and` joins, if some are about the arm and others about each episode; else the text."""
    try:
        parts = parse_expression(text).conjuncts()
    except ExpressionError:
        return [text]
    return parts if len(set(map(_compares_episodes, parts))) > 1 else [text]
