"""The draw of a failure mode, and its true rates."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.support import ROOT
from wirefault.conversation.modes import (
    COOLDOWN_S,
    LOOP,
    LOOP_AFTER,
    Odds,
    Situation,
    decision_diagrams,
    mode_named,
    modes,
)
from wirefault.core.errors import InputError

STATED = {
    **{"hallucination": 0.3, "incorrect_reasoning": 0.25, "off_topic": 0.2, "infinite_loop": 0.2},
    **{"refusing_progress": 0.15, "service_unavailable": 0.12, "api_timeout": 0.1, "auth_error": 0.08},
    **{"rate_limiting": 0.07, "token_limit": 0.05, "memory_exhaustion": 0.03, "stuck_pattern": 0.0},
}
LATER = Situation(LOOP_AFTER + 1)


def test_stated_probabilities_are_the_sources() -> None:
    assert {name: mode.probability for name, mode in modes().items()} == STATED


def test_four_of_five_messages_fail_at_the_stated_probabilities() -> None:
    none = math.prod(1 - chance for chance in STATED.values())
    assert sum(Odds().rates(LATER).values()) == pytest.approx(1 - none)


def test_page_says_how_many_messages_fail() -> None:
    page = (ROOT / "docs" / "conversation-lab.md").read_text(encoding="utf-8")
    first, later = (sum(Odds().rates(Situation(number)).values()) for number in (1, LOOP_AFTER + 1))
    assert f"fails with {first:.1%}, a later one with {later:.1%}".replace("%", " %") in page
    assert Odds().rates(Situation(3, since_failure=1.0)) == {}


@pytest.mark.parametrize(
    "situation",
    [Situation(1), LATER, Situation(9, "hallucination", COOLDOWN_S), Situation(9, LOOP, 99.0)],
    ids=["first", "later", "repeated", "looping"],
)
def test_rates_are_those_drawn(situation: Situation) -> None:
    n, odds = 20_000, Odds()
    drawn = Counter(odds.draw(7, f"s{session}", 1, situation) for session in range(n))
    rates = odds.rates(situation)
    assert set(drawn) - {""} <= set(rates)
    for name, rate in rates.items():
        assert abs(drawn[name] / n - rate) < 4 * math.sqrt(rate * (1 - rate) / n), name


def test_no_failure_follows_soon_after_another() -> None:
    assert Odds().chances(Situation(9, "off_topic", COOLDOWN_S - 0.001)) == {}
    assert Odds().chances(Situation(9, "off_topic", COOLDOWN_S))["off_topic"] == pytest.approx(0.06)


def test_loop_needs_a_conversation_and_repeats_more_likely() -> None:
    assert LOOP not in Odds().chances(Situation(LOOP_AFTER))
    assert Odds().chances(Situation(9, LOOP, 99.0))[LOOP] == pytest.approx(0.4)


def test_multiplier_stays_a_probability() -> None:
    assert max(Odds(multiplier=100).chances(LATER).values()) == 1.0
    assert Odds(multiplier=0).draw(1, "s", 1, LATER) == ""


def test_without_stated_probabilities_nothing_fails() -> None:
    assert all(Odds(stated={}).draw(seed, "s", 1, LATER) == "" for seed in range(50))


def test_unknown_mode_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'hallucination'"):
        mode_named("halucination")


def test_diagrams_show_every_possible_mode() -> None:
    whether, ends = decision_diagrams(Odds())
    assert all(name in whether for name, chance in STATED.items() if chance) and "post_recovery" in ends
