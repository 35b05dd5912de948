"""The setting RECOVERY: canonical text, and errors in one line."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from wirefault.recovery.strategies import STRATEGIES, Strategy, parse_recovery
from wirefault.settings.settings import Settings


def _any_of(kind: type[Strategy]) -> st.SearchStrategy[Strategy]:
    """Any value of each listed choice, and some numbers."""

    def values(field: FieldInfo) -> st.SearchStrategy[Any]:
        choices = get_args(field.annotation)
        if choices:
            return st.sampled_from(choices)
        if field.annotation is str:
            return st.sampled_from(["", "gpt-oss", "a/b:c"])
        return st.sampled_from([1, 2, 7])

    fields = {field.alias or name: values(field) for name, field in kind.model_fields.items()}
    return st.fixed_dictionaries(fields).map(kind.model_validate)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("none", "none"),
        ("breaker( failures = 3 ),retry(backoff=jitter,tries=4)", "retry(tries=4), breaker"),
        ("checks(schema=off)", "checks(schema=off)"),
        ("fallback(model=scripted-diligent)", "fallback(model=scripted-diligent)"),
    ],
)
def test_text_is_canonical(text: str, canonical: str) -> None:
    assert str(parse_recovery(text)) == canonical
    assert Settings(seed=1, recovery=text).recovery == canonical
    assert parse_recovery(canonical) == parse_recovery(text)


def test_each_strategy_is_known_by_its_name() -> None:
    recovery = parse_recovery(",".join(STRATEGIES))
    assert [strategy.name for strategy in recovery] == list(STRATEGIES) and not recovery.as_shipped
    assert list(parse_recovery("none")) == list(parse_recovery("")) == []


@given(
    st.lists(st.sampled_from(list(STRATEGIES.values())), unique=True, min_size=1).flatmap(
        lambda kinds: st.tuples(*map(_any_of, kinds))
    )
)
def test_canonical_text_parses_to_equal_strategies(strategies: tuple[Strategy, ...]) -> None:
    parsed = parse_recovery(", ".join(map(str, strategies)))
    assert {strategy.name: strategy for strategy in parsed} == {each.name: each for each in strategies}
    assert parse_recovery(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rety", "unknown strategy 'rety'; did you mean 'retry'?"),
        ("retry(tris=3)", "retry: unknown parameter 'tris'; did you mean 'tries'?"),
        ("retry(tries=0)", "retry: tries should be greater than or equal to 1, not '0'"),
        ("retry(tries)", "retry: 'tries' must be parameter=value"),
        ("retry(tries=2, tries=3)", "retry: duplicate parameter 'tries'"),
        ("keys(by=steps)", "keys: by should be 'step', 'arguments' or 'none', not 'steps'"),
        ("retry, retry", "duplicate strategy 'retry'"),
        ("none, retry", "'none' must be alone, not in 'none, retry'"),
        ("retry(base=nan)", "retry: base should be a finite number, not 'nan'"),
    ],
)
def test_error_names_the_mistake(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$") as error:
        parse_recovery(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "text", ["retry(", "retry)", "retry breaker", ",", "retry,", "()", "retry((tries=1))"]
)
def test_unreadable_text_gets_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^cannot read .*; write name\(parameter=value"):
        parse_recovery(text)
