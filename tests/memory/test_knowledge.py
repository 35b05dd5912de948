"""Knowledge about components and faults: pairs, ranges, patterns, recovery; no figure without data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.history.judged_events import Outcome
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.memory.episodes import (
    Remembered,
    RememberedFault,
    RememberedFinding,
    RememberedOutage,
    Result,
    result_of,
)
from wirefault.memory.knowledge import CONFIDENCE, Knowledge, Range, known_components
from wirefault.memory.learnings import learnings
from wirefault.memory.trials import (
    MIN_SIMILARITY,
    jaccard,
    similar_trials,
    similarity,
    trial_outcome,
    trials_in,
)
from wirefault.stats.rates import Share

LINK, TOOL, OTHER, SUBJECT = "link weather", "tool weather GET /now", "link movie", "subject agent"


def episode(key: str, arm: str = "method", outcome: Outcome = "success", **more: Any) -> Remembered:
    """An episode of the experiment ``x``; with one fault unless it is of the control."""
    result = result_of(outcome, (), ended=True) or "failure"
    faults = () if arm == "control" else (late(100),)
    known = {"source": "x", "twin_arm": "" if arm == "control" else "control", "faults": faults}
    run = {"run_id": f"{more.get('source', 'x')}-{arm}", "time": 1.0, "seconds": 2.0}
    used = {LINK: True, OTHER: True}
    return Remembered(
        arm=arm,
        key=key,
        subject=SUBJECT,
        outcome=outcome,
        **{"result": result, "used": used} | known | run | more,
    )


def late(ms: float, kind: str = "latency", link: str = "weather") -> RememberedFault:
    return RememberedFault(kind, link, (f"link {link}", f"tool {link} GET /now"), {"latency": ms})


def pairs(count: int, **more: Any) -> list[Remembered]:
    """So many pairs: the control succeeds, the arm has what ``more`` says."""
    return [each for n in range(count) for each in (episode(f"e{n}", "control"), episode(f"e{n}", **more))]


def known(episodes: Sequence[Remembered], component: str = LINK) -> Knowledge:
    [one] = [each for each in known_components(episodes) if each.component == component]
    return one


def test_success_with_and_without_has_intervals_and_the_effect_is_paired() -> None:
    of_link = known(pairs(10, outcome="failure"))
    assert (of_link.with_fault, of_link.without) == (Share(0, 10), Share(10, 10))
    assert of_link.without.interval(CONFIDENCE) == pytest.approx((0.741, 1), abs=1e-3)
    assert of_link.effect is not None
    assert (of_link.effect.value, of_link.effect.n, of_link.effect.high < 0) == (-1, 10, True)
    assert "latency lowers success by 100 percentage points" in learnings(of_link)[0].text
    assert learnings(of_link)[0].runs == ("x-method",)


def test_component_is_link_tool_and_subject() -> None:
    assert {each.component for each in known_components(pairs(1))} == {LINK, TOOL, SUBJECT}


def test_episode_with_two_faults_counts_for_the_effect_of_none() -> None:
    both = (late(100), late(100, "reset", "movie"))
    assert known(pairs(4, outcome="failure", faults=both)).effect is None
    assert known(pairs(4, outcome="failure", uncertain=True)).effect is None


def test_twin_that_met_a_fault_is_no_twin() -> None:
    episodes = [replace(each, faults=(late(1),)) if each.arm == "control" else each for each in pairs(3)]
    assert known(episodes).effect is None


def test_episode_without_the_component_is_not_compared() -> None:
    unused = episode("e9", "control", used={OTHER: True})
    assert known([*pairs(2), unused]).without == Share(2, 2)


def test_doses_that_were_survived_and_not() -> None:
    episodes = [
        *(episode(f"s{ms}", faults=(late(ms),)) for ms in (100, 400)),
        episode("f", outcome="failure", faults=(late(900),)),
        episode("?", outcome="unjudged", faults=(late(5000),)),
        # another fault may be the cause
        episode("two", outcome="failure", faults=(late(50), late(100, "reset", "movie"))),
    ]
    [latency] = known(episodes).ranges
    assert (latency.survived, latency.failed) == (Range(100, 400, 2), Range(900, 900, 1))
    texts = [each.text for each in learnings(known(episodes))]
    assert "survived latency 100 to 400 in 2 episodes, did not survive latency 900 in 1 episode" in texts


def test_pattern_counts_findings_about_the_component() -> None:
    here, elsewhere = (RememberedFinding("write_repeated", (link,)) for link in (LINK, OTHER))
    episodes = [*pairs(2, findings=(here,)), episode("e2", findings=(elsewhere,))]
    [pattern] = known(episodes).patterns
    assert (pattern.rule, pattern.with_fault, pattern.without) == ("write_repeated", Share(2, 3), Share(0, 2))


def test_affected_component_is_shown_by_pairs() -> None:
    one, other = pairs(6, used={LINK: False, OTHER: False}), pairs(6, used={LINK: False})
    for episodes in (one, other):  # it fails, or it is no longer called
        [affected] = known(episodes).affected
        assert (affected.component, affected.worked.value, affected.worked.high < 0) == (OTHER, -1, True)
    co_occurring = [replace(each, used={LINK: True, OTHER: False}) for each in pairs(6)]
    assert known(co_occurring).affected == ()  # it fails without the fault as often


def test_mean_time_to_recovery_of_unended_outage_is_a_lower_bound() -> None:
    outages = [RememberedOutage(LINK, ("latency",), end, 2.0) for end in ("recovered", "not_recovered")]
    foreign = RememberedOutage(OTHER, ("latency",), "recovered", 99.0)
    recovery = known([episode("e", outages=(*outages, foreign))]).recovery
    assert (recovery.seconds, recovery.at_least, recovery.recovered) == (2.0, True, 1)
    assert known([episode("e")]).recovery.seconds is None


@pytest.mark.parametrize(
    ("outcome", "severities", "ended", "result"),
    [
        ("success", ["note"], True, "success"),
        ("success", ["wasteful"], True, "partial success"),
        ("unconfirmed", [], True, "partial success"),
        ("honest_failure", ["risky"], True, "failure"),
        ("crash", [], True, "failure"),
        ("duplicate", ["harmful"], True, "unsafe"),
        ("unjudged", [], True, "unjudged"),
        ("success", [], False, "interrupted"),
        ("invalid", [], True, None),
    ],
)
def test_result_of_episode(
    outcome: Outcome, severities: list[str], ended: bool, result: Result | None
) -> None:
    assert result_of(outcome, severities, ended=ended) == result


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        (["success", "success"], "success"),
        (["success", "unjudged"], "success"),
        (["success", "failure"], "partial success"),
        (["partial success"], "partial success"),
        (["failure", "failure"], "failure"),
        (["success", "unsafe", "interrupted"], "unsafe"),
        (["success", "interrupted"], "interrupted"),
        (["unjudged"], "unjudged"),
    ],
)
def test_outcome_of_trial(results: list[Result], outcome: str) -> None:
    assert trial_outcome(results) == outcome


def test_similarity_has_its_named_weights() -> None:
    episodes = [*pairs(3), *pairs(3, source="y"), *pairs(3, source="z", faults=(late(1, "reset", "movie"),))]
    episodes = [replace(e, source="y") if e.run_id == "y-control" else e for e in episodes]
    same, other, far = trials_in(episodes, {"y": "flaky network"})
    assert (same.outcome, other.outcome) == ("success", "flaky network")
    assert similarity(same, other) == 1.0
    assert similarity(same, replace(other, experiment_type="reset")) == pytest.approx(0.7)
    assert similarity(same, replace(other, parameters={})) == pytest.approx(0.8)
    assert similarity(same, replace(other, affected_components=(OTHER,))) == pytest.approx(0.8)
    assert similarity(same, far) == pytest.approx(0.4)
    assert similar_trials(same, [same, replace(other, target_component=OTHER), far])[0][0] >= MIN_SIMILARITY
    assert jaccard((), ()) == 1 and jaccard("ab", "bc") == pytest.approx(1 / 3)


NUMBERS = st.floats(min_value=-1e15, max_value=1e15)
EPISODES = st.builds(
    Remembered,
    source=st.sampled_from("xy"),
    arm=st.sampled_from(["control", "method"]),
    run_id=st.just("run"),
    key=st.sampled_from("abc"),
    subject=st.just(SUBJECT),
    time=NUMBERS,
    seconds=st.floats(0, 1e9),
    outcome=st.sampled_from(sorted(OUTCOMES)),
    result=st.sampled_from(["success", "partial success", "failure", "unsafe", "interrupted", "unjudged"]),
    twin_arm=st.sampled_from(["", "control"]),
    faults=st.lists(
        st.builds(
            RememberedFault,
            st.sampled_from(["latency", "reset"]),
            st.sampled_from(["weather", "movie"]),
            st.sampled_from([(LINK, TOOL), (OTHER,)]),
            st.dictionaries(st.sampled_from(["latency", "jitter"]), NUMBERS, max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    uncertain=st.booleans(),
    used=st.dictionaries(st.sampled_from([LINK, TOOL, OTHER]), st.sampled_from([True, False, None])),
    findings=st.lists(st.builds(RememberedFinding, st.just("rule"), st.sampled_from([(), (LINK,)]))).map(
        tuple
    ),
    outages=st.lists(
        st.builds(
            RememberedOutage,
            st.sampled_from([LINK, OTHER]),
            st.just(("latency",)),
            st.sampled_from(["recovered", "not_recovered", "unknown"]),
            st.floats(0, 1e9),
        ),
        max_size=3,
    ).map(tuple),
)


@given(st.lists(EPISODES, max_size=12))
def test_figures_are_finite_and_shares_are_bounded(episodes: list[Remembered]) -> None:
    for each in known_components(episodes):
        sentences = learnings(each)
        json.dumps([asdict(each), list(map(asdict, sentences))], allow_nan=False)
        assert all(
            "nan" not in sentence.text.split() and "inf" not in sentence.text for sentence in sentences
        )
        for share in (each.with_fault, each.without):
            ends = share.interval()
            assert ends is None or 0 <= ends[0] <= ends[1] <= 1
        for difference in (each.effect, *(affected.worked for affected in each.affected)):
            if difference is not None:
                assert -1 <= difference.low <= difference.value <= difference.high <= 1
    trials = trials_in(episodes, {})
    json.dumps(list(map(asdict, trials)), allow_nan=False)
    assert all(0 <= similarity(one, other) <= 1 for one in trials for other in trials)
