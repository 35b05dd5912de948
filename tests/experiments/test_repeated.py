"""Repeated writes of an arm by comparison with its control."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support import replace
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.figures import measures_of
from wirefault.experiments.repeated import asserted_by_control, judged_by_control, waits_for_control
from wirefault.experiments.verdict import ArmResult, judge_experiment
from wirefault.history.judged_events import EpisodeJudged, FaultRecord, Finding
from wirefault.judging.checker import CheckResult, Observation
from wirefault.judging.writes import SentCount, WriteCount

ORDER = WriteCount("POST /orders", "POST /orders of shop", "tea", 1, 0, ("r/gateway-0:2", "r/gateway-0:5"))
NO_DUPLICATE = ("no duplicate",)


def times(executed: int, maybe: int = 0, **more: object) -> WriteCount:
    return replace(ORDER, executed=executed, maybe=maybe, **more)


def arm(*episodes: Sequence[WriteCount], first: str = "tea", **more: object) -> ArmFacts:
    keys = [first, *(f"{first}.r{number}" for number in range(2, len(episodes) + 1))]
    of_judged = {name: more.pop(name) for name in [*more] if name in EpisodeJudged.__struct_fields__}
    fault = FaultRecord(0, "lost", "fault", "lose_reply", "shop", 1, "observed", True, "caller")
    facts = [
        EpisodeFacts(
            EpisodeJudged(0.0, key, **{"outcome": "success", "faults": (fault,)} | of_judged),
            writes=tuple(writes),
            **more,
        )
        for key, writes in zip(keys, episodes, strict=True)
    ]
    return ArmFacts(len(facts), facts)


def verdict(method: ArmFacts, control: ArmFacts, after: ArmFacts | None = None) -> tuple[str, str]:
    """The verdict on ``no duplicate`` and its text."""
    judged = judged_by_control(method, control, after)
    calm = measures_of(control) | {"faults_delivered": measures_of(arm([]))["invalid"]}
    arms = [
        ArmResult("control", ("c",), ("success_share >= 50 %",), calm),
        ArmResult("method", ("m",), NO_DUPLICATE, measures_of(judged)),
    ]
    result = judge_experiment(arms)
    check = next(check for check in result.checks if check.statement == "no duplicate")
    return check.verdict, "" if check.verdict == "held" else check.message


ONCE, TWICE = [times(1)], [times(2)]
REPEATED = Finding("write_repeated", "harmful", "sent again", "tea", ("r/gateway-0:5",))
HASTY = Finding("hasty_retry", "risky", "sent again", "tea", ("r/gateway-0:5",))


def test_extra_write_compared_with_control() -> None:
    assert verdict(arm(TWICE, TWICE), arm(ONCE, ONCE)) == (
        "deviated",
        "POST /orders of shop executed twice, but once in each of 2 control episodes",
    )


def test_copies_by_the_network_refute_the_statement_but_are_no_harm() -> None:
    method, control = arm([times(2, copies=1)]), arm(ONCE, ONCE)
    text = "executed twice, but once in each of 2 control episodes, since the network delivered it"
    assert text in verdict(method, control)[1]
    [episode] = judged_by_control(method, control).episodes
    assert episode.judged.by_outcome is not None and episode.judged.by_outcome.severity == "note"
    assert episode.control.by_network and list(episode.findings) == []
    [again] = judged_by_control(arm([times(3, copies=1)]), control).episodes
    assert again.judged.by_outcome is not None and again.judged.by_outcome.severity == "harmful"


def test_unread_connection_is_unknown() -> None:
    unread = "writes may have gone unseen: the subject to 127.0.0.1:9000 (link shop) over HTTP/2"
    assert verdict(arm(ONCE, ONCE, unseen_writes=unread), arm(ONCE, ONCE)) == ("unknown", unread)


def test_episode_with_repeated_write_is_not_success() -> None:
    judged = judged_by_control(arm(TWICE, ONCE), arm(ONCE, ONCE))
    assert [episode.judged.outcome for episode in judged.episodes] == ["duplicate", "success"]


@pytest.mark.parametrize(
    ("method", "control"),
    [
        pytest.param([ONCE, ONCE], [ONCE, ONCE], id="once each"),
        pytest.param([TWICE, TWICE], [TWICE, TWICE], id="the agent orders twice on its own"),
        pytest.param([[times(1), times(1, same="coffee")]], [ONCE, ONCE], id="two wordings of one order"),
        pytest.param(
            [[times(2, same="cart-7")]],
            [[times(2, same="cart-1")], [times(2, same="cart-2")]],
            id="other ids",
        ),
        pytest.param([[]], [ONCE, ONCE], id="never written"),
    ],
)
def test_no_repeated_write(method: list[list[WriteCount]], control: list[list[WriteCount]]) -> None:
    assert verdict(arm(*method), arm(*control)) == ("held", "")


def test_one_of_two_wordings_is_repeated() -> None:
    method = arm([times(2, same="two teas")])
    assert verdict(method, arm(ONCE, ONCE))[0] == "deviated"


def test_inconsistent_control_is_unknown() -> None:
    verdict_, message = verdict(arm(TWICE), arm(ONCE, [], ONCE))
    assert (verdict_, message) == (
        "unknown",
        "POST /orders of shop executed twice, and the control does not agree on a count (0, 1, 1)",
    )


def test_single_control_episode_is_insufficient() -> None:
    assert "1 control episode of the prompt do not decide" in verdict(arm(TWICE), arm(ONCE))[1]
    assert verdict(arm(TWICE), arm(ONCE), arm(ONCE))[0] == "deviated"  # the control afterwards is another one


@pytest.mark.parametrize("method", [[ONCE], [TWICE], [[times(1, maybe=1)]], [[times(3)]]])
@pytest.mark.parametrize("control", [[ONCE], [TWICE], [ONCE, ONCE]])
@pytest.mark.parametrize("world", ["not_applicable", "as_asked"])
def test_outcomes_are_final_unless_the_control_afterwards_can_change_them(
    method: list[list[WriteCount]], control: list[list[WriteCount]], world: str
) -> None:
    struck = arm(*method, world=world)
    outcomes = {
        episode.judged.outcome
        for after in (None, arm(ONCE), arm(TWICE), arm([]))
        for episode in judged_by_control(struck, arm(*control), after).episodes
    }
    assert len(outcomes) == 1 or waits_for_control(struck, arm(*control))
    assert waits_for_control(struck, arm(*control)) == (
        len(control) < 2 and method != [ONCE] and world != "as_asked"
    )


def test_possibly_executed_write_is_unknown() -> None:
    assert verdict(arm([times(1, maybe=1)]), arm(ONCE, ONCE)) == (
        "unknown",
        "POST /orders of shop may have been executed twice",
    )


def test_control_of_another_prompt_does_not_count() -> None:
    assert verdict(arm(TWICE), arm(ONCE, ONCE, first="coffee"))[0] == "unknown"


def test_world_as_asked_overrides_repeated_write() -> None:
    assert verdict(arm(TWICE, world="as_asked"), arm(ONCE, ONCE)) == ("held", "")


def test_invalid_episodes_are_not_judged() -> None:
    judged = judged_by_control(arm(TWICE, outcome="invalid"), arm(ONCE, ONCE))
    assert judged.episodes[0].judged.outcome == "invalid"


def repeated(**more: object) -> ArmFacts:
    """An episode with two findings, one of them about the write that was executed twice."""
    return arm([times(2, caused=1)], findings=(REPEATED, HASTY), **more)


def test_finding_equal_to_control_is_ignored() -> None:
    [judged] = judged_by_control(repeated(), arm(TWICE, TWICE)).episodes
    assert (judged.judged.outcome, judged.judged.findings, judged.control.usual) == (
        "success",
        (HASTY,),
        {"tea"},
    )
    [judged] = judged_by_control(repeated(world="as_asked"), arm(TWICE, TWICE)).episodes
    assert judged.judged.findings == (HASTY,)
    [judged] = judged_by_control(repeated(), arm(TWICE)).episodes  # one control episode is enough for that
    assert judged.judged.findings == (HASTY,)


@pytest.mark.parametrize("control", [arm(ONCE, ONCE), arm(TWICE, ONCE)])
def test_finding_above_control_is_kept(control: ArmFacts) -> None:
    [judged] = judged_by_control(repeated(), control).episodes
    assert (judged.judged.findings, judged.control.usual) == ((REPEATED, HASTY), frozenset())


def test_finding_about_other_write_is_kept() -> None:
    coffee = times(2, same="coffee", caused=1, ids=("r/gateway-0:8",))
    other = replace(REPEATED, evidence=coffee.ids)
    [judged] = judged_by_control(
        arm([times(2, caused=1), coffee], findings=(REPEATED, other)),
        arm(*[[times(2), times(1, same="coffee")]] * 2),
    ).episodes
    assert (judged.judged.outcome, judged.judged.findings, judged.control.usual) == (
        "duplicate",
        (other,),
        {"tea"},
    )
    assert [each.rule for each in judged.findings] == ["write_repeated"]  # names the duplicate


def test_control_retry_after_failure_is_not_baseline() -> None:
    calm = [times(2, caused=1)]
    assert verdict(repeated(), arm(calm, calm)) == (
        "unknown",
        "POST /orders of shop executed twice, and as often in the control after a failure there",
    )
    [judged] = judged_by_control(repeated(), arm(calm, calm)).episodes
    assert judged.judged.findings == (REPEATED, HASTY)


def test_write_missing_in_control_has_no_baseline() -> None:
    control = arm([times(2)], [times(2)])
    assert verdict(arm([times(2), times(2, same="coffee")]), control)[0] == "deviated"


AGAIN = Observation("POST /orders was sent again", ("r/gateway-0:2", "r/gateway-0:5"))
OTHER = Observation("DELETE /orders/7 was sent again", ("r/gateway-0:9",))
FOUND = CheckResult(passed=False, measured=AGAIN.text, evidence=AGAIN.evidence, observations=(AGAIN,))


def asserted(rule: str, result: CheckResult, control: ArmFacts) -> CheckResult:
    """The result of ``no_finding`` against that control, for an episode with a duplicate order."""
    twice = times(2, ids=("r/gateway-0:2", "r/gateway-0:5"))
    [episode] = judged_by_control(arm([twice], asserted=(result,)), control).episodes
    beside = asserted_by_control({"no_finding": rule}, episode, 0)
    assert isinstance(beside, CheckResult)
    return beside


def test_no_finding_excludes_writes_repeated_by_control() -> None:
    assert asserted("write_repeated", FOUND, arm(TWICE, TWICE)).passed is True
    assert asserted("write_repeated", FOUND, arm(ONCE, ONCE)) == FOUND
    both = replace(FOUND, observations=(AGAIN, OTHER))
    rest = asserted("write_repeated", both, arm(TWICE, TWICE))
    assert (rest.passed, rest.measured, rest.evidence) == (False, OTHER.text, OTHER.evidence)


def test_no_finding_is_unknown_with_missing_requests() -> None:
    gap = replace(FOUND, message="connections bypassed the lab")
    assert asserted("write_repeated", gap, arm(TWICE, TWICE)).passed is None


def test_no_finding_of_other_rules_ignores_control() -> None:
    assert asserted("hasty_retry", FOUND, arm(TWICE, TWICE)) == FOUND


THRICE = SentCount("rate", 3, ("r/gateway-0:2", "r/gateway-0:5"), caused=1)


@pytest.mark.parametrize(("often", "caused", "is_usual"), [(3, 0, True), (2, 0, False), (3, 1, False)])
def test_request_that_control_sends_as_often_was_not_sent_again(
    often: int, caused: int, is_usual: bool
) -> None:
    struck = arm([], asserted=(FOUND,), sends=(THRICE,), findings=(HASTY,))
    calm = arm([], sends=(replace(THRICE, sends=often, caused=caused),))
    [judged] = judged_by_control(struck, calm).episodes
    assert judged.judged.findings == (() if is_usual else (HASTY,))
    beside = asserted_by_control({"no_finding": "hasty_retry"}, judged, 0)
    assert isinstance(beside, CheckResult) and beside.passed is is_usual


def test_no_finding_per_turn_excludes_same_writes() -> None:
    assert asserted("write_repeated", replace(FOUND, observations=()), arm(TWICE, TWICE)).passed is True
