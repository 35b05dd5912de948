"""A probe's reading of the world, compared with the requested state or changes."""

import pytest

from tests.judging.oracle.histories import ASK_BOB, ended, episode, healed, judge_episode
from wirefault.history.events import WorldProbed
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.state_world import judge_state

TEA, COFFEE, MILK = {"item": "tea", "id": 1}, {"item": "coffee", "id": 2}, {"item": "milk", "id": 3}


def probed(state, when="after", error=None):
    return WorldProbed(100.0, "001", when, state, error)


def judged(expect, after, before=(), settled=True):
    probes = [probed(list(before) if before == () else before, "before"), probed(after)]
    return judge_state(parse_expect(expect), probes, settled)


@pytest.mark.parametrize(
    ("state", "axis"),
    [
        ([TEA, COFFEE], "as_asked"),
        ([COFFEE, TEA], "as_asked"),
        ([TEA, TEA, COFFEE], "duplicated"),
        ([TEA], "lost"),
        ([TEA, COFFEE, MILK], "extra"),
        ([TEA, {"item": "cofee", "kind": "drink"}], "wrong"),
    ],
)
def test_list_is_multiset(state, axis):
    expect = {"state": {"orders": [{"item": "coffee", "kind": "drink"}, {"item": "tea"}]}}
    there = [row | {"kind": "drink"} for row in state]
    assert judged(expect, {"orders": there, "more": 1}).axis == axis


@pytest.mark.parametrize(
    ("expect", "axis"),
    [
        ({"stock": {"tea": 5}}, "as_asked"),
        ({"stock": {"tea": {"number": 5.2, "tolerance": 0.5}}}, "as_asked"),
        ({"stock": {"tea": 4}}, "wrong"),
        ({"stock": {"milk": 1}}, "lost"),
    ],
)
def test_object_is_matched_by_expected_fields(expect, axis):
    assert judged({"state": expect}, {"stock": {"tea": 5}}).axis == axis


@pytest.mark.parametrize(
    ("after", "axis", "why"),
    [
        ([MILK, TEA], "as_asked", ""),
        ([MILK, TEA, TEA], "duplicated", 'added: {"item": "tea", "id": 1} more often than asked for'),
        ([MILK], "lost", 'added: {"item": "tea"} missing'),
        ([MILK, TEA, COFFEE], "extra", 'added: {"item": "coffee", "id": 2} not asked for'),
        ([TEA], "extra", 'removed: {"item": "milk", "id": 3} not asked for'),
    ],
)
def test_added_is_difference(after, axis, why):
    judgement = judged({"added": [{"item": "tea"}]}, after, before=[MILK])
    assert (judgement.axis, judgement.why) == (axis, why)


def test_changed_row_is_removed_and_added():
    expect = {"added": {"orders": [{"id": 3, "item": "oat milk"}]}, "removed": {"orders": [{"id": 3}]}}
    after = {"orders": [MILK | {"item": "oat milk"}], "n": 1}
    assert judged(expect, after, before={"orders": [MILK], "n": 0}).axis == "as_asked"


def test_missing_probe_makes_world_unknown():
    added = parse_expect({"added": [TEA]})
    assert judge_state(added, [probed([TEA])], True).axis == "unknown"
    assert judge_state(added, [], True).why == "missing probe of the world's state"
    assert judged({"added": [TEA]}, [TEA], settled=False).axis == "unknown"
    assert judged({"added": [TEA]}, 5).why == "the state is neither a list nor an object with lists"
    assert judged({"added": {"ordres": [TEA]}}, {"orders": []}, before={"orders": []}).axis == "unknown"


def test_probes_replace_lab_effects():
    probes = [probed([], "before"), probed([TEA])]
    assert judge_episode(episode(*probes, expect={"added": [TEA]})).world == "as_asked"
    assert judge_episode(episode(*probes, expect={"added": [TEA]} | ASK_BOB)).world == "lost"


def test_failed_probe_makes_episode_invalid():
    failed = episode(probed(None, "before", "the reset failed: no"), expect={"added": [TEA]})
    verdict = judge_episode(failed)
    assert (verdict.outcome, verdict.why) == ("invalid", "oracle_failed: the reset failed: no")


def test_state_after_first_attempt_is_unknown():
    attempts = [ended("failed"), healed(), ended(attempt=2), healed(attempt=2)]
    events = episode(*attempts, probed([], "before"), probed([TEA]), expect={"added": [TEA]})
    verdict = judge_episode(events)
    assert (verdict.outcome, verdict.first_attempt_outcome) == ("success", "unjudged")


NOTE = {"note": {"contains": "late"}}


@pytest.mark.parametrize(
    ("note", "axis"),
    [
        ("will be late", "as_asked"),
        ("will not be late", "wrong"),
        ("Is he late?", "unknown"),
        ("l�te", "unknown"),
    ],
)
def test_text_of_a_state_is_read_like_an_answer(note, axis):
    assert judged({"state": NOTE}, {"note": note}).axis == axis
    in_list = "lost" if axis == "wrong" else axis  # another row, and one is missing
    assert judged({"added": [NOTE]}, [{"note": note}]).axis == in_list


def test_certain_difference_outweighs_unreadable_one():
    expect = {"state": {"note": {"contains": "late"}, "count": 2}}
    assert judged(expect, {"note": "Is he late?", "count": 3}).axis == "wrong"
    assert judged(expect, {"note": "Is he late?", "count": 2}).axis == "unknown"
