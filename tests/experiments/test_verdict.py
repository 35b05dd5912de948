"""From measures to the verdict: every reason for unknown comes before held and deviated."""

from __future__ import annotations

import pytest

from wirefault.experiments.estimates import Rate, Terms
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.measure import Measure, Number
from wirefault.experiments.verdict import ArmResult, Judged, judge_experiment

STATEMENT = "success_share >= 50 %"
TERMS = Terms()


def arm(
    name: str,
    successes: int,
    failures: int,
    *hypothesis: str,
    open: int = 0,
    failure: str = "",
    **more: Bounds,
) -> ArmResult:
    """An arm whose first episodes succeeded, whose next ones failed, and whose last ones are open."""
    outcomes = [*[True] * successes, *[False] * failures, *[None] * open]
    rate = Rate({str(place): outcome for place, outcome in enumerate(outcomes)})
    n, known = len(outcomes), successes + failures
    bounds = {"success": Bounds(successes, successes + open), "duplicate": exactly(0), "all": exactly(n)}
    bounds |= {"faults_delivered": exactly(4), "success_share": exactly(successes / known if known else 0)}
    measures = {key: Measure(value, episodes=("e1",)) for key, value in (bounds | more).items()}
    measures["p95"] = Measure(None)
    if n:
        measures["success_rate"] = Measure(
            Bounds(successes / n, (successes + open) / n), episodes=("e1",), estimate=rate
        )
    return ArmResult(name, (f"run-{name}",), hypothesis or (STATEMENT,), measures, failure)


CONTROL, AFTER = arm("control", 2, 0), arm("control-after", 2, 0)


def judged(method: ArmResult, *, n: int = 100, terms: Terms = TERMS) -> Judged:
    return judge_experiment([arm("control", n, 0), method, arm("control-after", n, 0)], terms)


@pytest.mark.parametrize(
    ("statement", "successes", "failures", "verdict"),
    [
        ("success_rate >= 0.9", 100, 0, "held"),
        ("success_rate >= 0.9", 28, 0, "unknown"),  # the 90 % interval ends at .899
        ("success_rate >= 0.9", 29, 0, "held"),
        ("success_rate >= 0.9", 17, 3, "unknown"),
        ("success_rate >= 0.9", 10, 10, "deviated"),
        ("success_rate <= 0.1", 0, 29, "held"),
        ("success >= 95 % * all", 19, 1, "held"),  # 0.95 * 20 is 19 exactly
        ("success_share >= 95 %", 19, 1, "held"),
        ("success == all", 20, 0, "held"),
        ("success == all", 19, 1, "deviated"),
        ("degradation <= 5 %", 100, 0, "held"),
        ("degradation <= 5 %", 96, 4, "unknown"),
        ("degradation <= 5 %", 80, 20, "deviated"),
        ("success_rate >= control_success_rate - 0.1", 100, 0, "held"),
        ("p95 <= 5s", 100, 0, "unknown"),
        ("no duplicate within 5 %", 59, 0, "held"),
        ("no duplicate within 5 %", 58, 0, "unknown"),
    ],
)
def test_statement_decides(statement: str, successes: int, failures: int, verdict: str) -> None:
    n = successes + failures
    assert judged(arm("method", successes, failures, statement), n=n).verdict == verdict


def test_open_episodes_widen_interval_at_both_ends() -> None:
    result = judged(arm("method", 40, 0, "success_rate >= 0.9", open=5), n=45)
    [claim] = [check.claim for check in result.checks if check.claim]
    assert (claim.low, claim.high) == (pytest.approx(0.7805, abs=1e-4), 1.0)
    assert result.verdict == "unknown" and claim.needed is None
    assert judged(arm("method", 10, 30, "success_rate >= 0.9", open=5), n=45).verdict == "deviated"


def test_confidence_moves_ends_of_interval() -> None:
    method = arm("method", 29, 0, "success_rate >= 0.9")
    assert judged(method, n=29, terms=Terms(0.95)).verdict == "unknown"


def test_check_names_rate_that_its_episodes_rule_out() -> None:
    [check] = [
        c for c in judged(arm("method", 4, 0, "no duplicate"), n=4).checks if c.statement == "no duplicate"
    ]
    assert (check.kind, check.message) == ("check", "none in 4: rates above 53 % are ruled out")


def test_unknown_claim_names_n_that_would_decide() -> None:
    [claim] = [c for c in judged(arm("method", 17, 3, "success_rate >= 0.8"), n=20).checks if c.claim]
    assert claim.claim is not None and claim.claim.needed is not None
    assert claim.message == f"n = {claim.claim.needed} would decide if the figures stay"
    n, successes = claim.claim.needed, int(0.85 * claim.claim.needed)
    assert judged(arm("method", successes, n - successes, "success_rate >= 0.8"), n=n).verdict == "held"


def test_what_a_claim_measured_is_its_number_with_the_interval_that_decided() -> None:
    [claim] = [c for c in judged(arm("method", 29, 0, "success_rate >= 0.9"), n=29).checks if c.claim]
    [(name, rate)] = claim.measured.items()
    assert isinstance(rate, Number) and name == "success_rate" and rate == 1
    assert claim.figures == f"success_rate {rate}" and f"{rate:.0%}" == "100%"
    of_json = rate.as_json()
    assert claim.claim is not None
    assert (of_json["estimate"], of_json["n"], of_json["confidence"]) == (1.0, 29, 0.9)
    assert (of_json["low"], of_json["high"]) == (claim.claim.low, claim.claim.high) == rate.interval


def test_joined_statements_are_judged_one_by_one() -> None:
    result = judged(arm("method", 100, 0, "no duplicate and success_rate >= 0.9"))
    rows = [(c.kind, c.statement) for c in result.checks if c.arm == "method"]
    assert rows[1:] == [("check", "no duplicate"), ("claim", "success_rate >= 0.9")]


def test_deviations_of_several_claims_share_error() -> None:
    # 15 of 20 at 0.9: alone the upper end is .8986, among three the 96.7 % interval reaches .92
    def end(arms: int) -> Judged:
        bad = [arm(f"v{i}", 15, 5, "success_rate >= 0.9") for i in range(arms)]
        good = [arm(f"w{i}", 20, 0, "success_rate >= 0.8") for i in range(3)]
        return judge_experiment(
            [arm("control", 20, 0), *bad, *(good if arms == 1 else ()), arm("control-after", 20, 0)]
        )

    alone = judged(arm("method", 15, 5, "success_rate >= 0.9"), n=20)
    assert alone.verdict == "deviated"
    shared = end(1)
    assert shared.verdict == "unknown"
    [check] = [check for check in shared.checks if check.verdict == "unknown"]
    assert check.message == "4 claims share the error" and check.claim is not None
    assert check.claim.high is not None and check.claim.high > 0.9


def test_missing_steady_state_has_no_verdict() -> None:
    result = judge_experiment([arm("control", 4, 6), arm("method", 10, 0, "no duplicate")])
    assert result.verdict == "unknown" and "not in its steady state before any fault" in result.because


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(20, 20, "held"), (20, 16, "held"), (20, 12, "deviated"), (4, 0, "unknown"), (7, 0, "deviated")],
)
def test_control_afterwards_deviates_only_if_it_is_worse(before: int, after: int, verdict: str) -> None:
    arms = [
        arm("control", before, 0),
        arm("method", before, 0, "no duplicate"),
        arm("control-after", after, before - after),
    ]
    result = judge_experiment(arms)
    assert result.verdict == verdict
    assert verdict == "held" or result.because.startswith("afterwards, without faults")


def test_good_agent_keeps_its_default_steady_state() -> None:
    assert judge_experiment([arm("control", 17, 3), arm("method", 20, 0, "success == all")]).verdict == "held"


def test_arm_without_delivered_fault_is_unknown() -> None:
    for delivered in (exactly(0), Bounds(0, 3)):
        assert judged(arm("method", 100, 0, "no duplicate", faults_delivered=delivered)).verdict == "unknown"


def test_deviated_precedes_unknown() -> None:
    arms = [arm("a", 20, 0, "p95 <= 5s"), arm("b", 5, 15, "success_rate >= 0.95")]
    result = judge_experiment([arm("control", 20, 0), *arms, arm("control-after", 20, 0)])
    assert (result.verdict, result.because[:2]) == ("deviated", "b:")
    assert [check.episodes for check in result.checks if check.verdict == "deviated"] == [("e1",)]


def test_failed_arm_is_unknown() -> None:
    result = judged(arm("method", 0, 0, failure="its run ended early"))
    assert result.verdict == "unknown" and "its run ended early" in result.because
