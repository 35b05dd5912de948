"""An assertion over an arm: unknown episodes leave it open and never pass it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.experiments.assertions.views import model_request, view
from tests.judging.oracle.histories import ended, exchange, fault_met, healed, tried
from tests.support import replace
from wirefault.experiments.assertions.on_arm import Asserted, assert_on_arm, assert_on_episode
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.episode_view import EpisodeView

ROME = view(ended(ended_by="text", response="Rome"))
PARIS = view(ended(ended_by="text", response="Paris"))
INVALID = view(ended(ended_by="text", response="Rome"), healed(invalid="disturbed"))
STRUCK = view(tried(error="server_error", status=503), exchange(status=503, fault=fault_met()))


def on_arm(entry: AssertionEntry, views: Sequence[EpisodeView], planned: int) -> Asserted:
    """The views as different episodes."""
    named = [
        replace(each, started=replace(each.started, episode=f"{number:03}"))
        for number, each in enumerate(views, start=1)
    ]
    assertion = parse_assertion(entry)
    asserted = {each.episode: assert_on_episode(assertion, each) for each in named}
    return assert_on_arm(entry, asserted, planned)


@pytest.mark.parametrize(
    ("share", "views", "planned", "passed"),
    [
        (1, [ROME, ROME], 2, True),
        (1, [ROME, PARIS], 2, False),
        (1, [ROME, INVALID], 2, None),
        (1, [PARIS, INVALID], 2, False),
        (1, [ROME], 2, None),
        ("50 %", [ROME, PARIS], 2, True),
        ("50 %", [ROME, INVALID], 2, True),
        ("50 %", [PARIS, INVALID], 2, None),
        ("60 %", [ROME, PARIS], 2, False),
    ],
)
def test_assertion_holds_at_required_share(
    share: float | str, views: list[EpisodeView], planned: int, passed: bool | None
) -> None:
    asserted = on_arm({"answer_contains": {"text": "Rome", "episodes": share}}, views, planned)
    assert asserted.result.passed is passed


def test_result_has_expectation_and_finding() -> None:
    asserted = on_arm({"answer_contains": "Rome"}, [PARIS], 2)
    result = asserted.result
    assert (result.name, result.expected) == ("answer_contains", "an answer with 'Rome'")
    assert (result.measured, result.message) == ("0 of 2 episodes, 1 unknown", "001: Paris")
    assert (asserted.episodes, result.evidence) == (("001",), ("agent-0:3",))
    assert asserted.statement == "answer_contains: Rome"


def test_unjudgeable_episodes_do_not_count() -> None:
    late = [exchange(status=503, start=103.0), exchange(start=104.0, try_=2)]
    retried = view(*late, recorded=False)
    asserted = on_arm({"retry_spacing": "500 ms"}, [ROME, retried], 2)
    assert asserted.result.passed is True
    assert asserted.result.measured == "1 of 1 episodes, 1 with nothing to judge"
    nothing = on_arm({"retry_spacing": "500 ms"}, [ROME], 1).result
    assert nothing.passed is None and "nothing that failed was sent again" in nothing.message


@pytest.mark.parametrize(
    ("entry", "passed"),
    [
        ({"statement": {"text": "faults_delivered >= 2", "over": "arm"}}, True),
        ({"statement": {"text": "faults_delivered >= 3", "over": "arm"}}, False),
        ("faults_delivered >= 1", True),
        ({"statement": {"text": "faults_delivered >= 1", "kind": "rate_limit"}}, False),
        ({"statement": {"text": "failed_calls <= 1", "over": "arm"}}, False),
        ({"statement": {"text": "failed_calls <= 2", "over": "arm"}}, True),
    ],
)
def test_episode_figures_are_summed(entry: AssertionEntry, passed: bool) -> None:
    assert on_arm(entry, [STRUCK, STRUCK], 2).result.passed is passed


@pytest.mark.parametrize(("most", "passed"), [(1, False), (2, None)])
def test_partial_sum_is_lower_bound(most: int, passed: bool | None) -> None:
    model = view(model_request(), model_request(104.0))
    result = on_arm({"statement": {"text": f"model_calls <= {most}", "over": "arm"}}, [model], 2).result
    assert (result.passed, result.measured) == (passed, "model_calls 2 or more")
