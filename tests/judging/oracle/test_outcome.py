"""The claim axis, and the outcome of every combination of axes."""

from collections import Counter
from itertools import product
from typing import get_args

import pytest

from tests.judging.oracle.histories import ended
from tests.support import ROOT
from wirefault.history.events import EndedBy
from wirefault.history.judged_events import Claim, ValueAxis, World
from wirefault.judging.oracle.claim import judge_claim
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.outcome import OUTCOMES, Axes, outcome_of

FINE = [(w, v) for w in ("as_asked", "not_applicable") for v in ("right", "not_applicable")]
BAD = [
    (w, v)
    for w, v in product(("as_asked", "not_applicable", "lost", "wrong", "extra"), get_args(ValueAxis))
    if (w, v) not in FINE and (w in ("lost", "wrong", "extra") or v != "unreadable")
]


def outcome(world="as_asked", claim="done", value="right", ended_by="report", **more):
    return outcome_of(Axes(world, claim, value, ended_by, **more))


@pytest.mark.parametrize(
    ("claim", "fine", "bad"),
    [
        ("done", "success", "false_success"),
        ("unclear", "success", "failure"),
        ("unsure", "unconfirmed", "honest_failure"),
        ("failed", "false_failure", "honest_failure"),
    ],
)
def test_outcome_by_claim_world_and_value(claim, fine, bad):
    assert {outcome(w, claim, v) for w, v in FINE} == {fine}
    assert {outcome(w, claim, v) for w, v in BAD} == {bad}


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"invalid": True, "world": "duplicated"}, "invalid"),
        ({"world": "duplicated", "ended_by": "limit", "claim": "none"}, "duplicate"),
        ({"ended_by": "limit", "claim": "none", "world": "unknown"}, "runaway"),
        ({"ended_by": "exception", "claim": "none", "judged": False}, "crash"),
        ({"ended_by": "empty", "claim": "none"}, "crash"),
        ({"claim": "none"}, "crash"),
        ({"judged": False}, "unjudged"),
        ({"world": "unknown"}, "unjudged"),
        ({"claim": "unclear", "ended_by": "text", "world": "lost"}, "failure"),
        ({"claim": "unclear", "ended_by": "text", "world": "lost", "value": "unreadable"}, "failure"),
        ({"claim": "unclear", "ended_by": "text", "value": "unreadable"}, "unjudged"),
        ({"claim": "failed", "value": "unreadable"}, "honest_failure"),
        ({"claim": "unsure", "value": "unreadable"}, "unjudged"),
        ({"world": "lost", "value": "unreadable"}, "false_success"),
        ({"value": "none"}, "false_success"),
        ({"value": "wrong", "misled": True}, "misled"),
        ({"misled": True}, "success"),
        ({"value": "wrong", "claim": "unsure", "misled": True}, "honest_failure"),
        ({"world": "duplicated", "misled": True}, "duplicate"),
    ],
)
def test_first_fitting_outcome(axes, expected):
    assert outcome(**axes) == expected


def test_each_combination_has_one_outcome_and_each_outcome_occurs():
    flags = [False, True]
    combinations = product(
        get_args(World), get_args(Claim), get_args(ValueAxis), get_args(EndedBy), flags, flags, flags
    )
    counted = Counter(outcome_of(Axes(*combination)) for combination in combinations)
    assert set(counted) == set(OUTCOMES)
    assert counted.total() == 7 * 5 * 5 * 5 * 2 * 2 * 2


def test_docs_have_every_outcome():
    rows = [
        f"| `{row.name}` | {row.meaning} | {'yes' if row.in_rate else 'no'} |" for row in OUTCOMES.values()
    ]
    assert "\n".join(rows) in (ROOT / "docs/outcomes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("status", ["done", "failed", "unsure"])
def test_claim_is_reports_status(status):
    assert judge_claim(None, ended(status)) == status


@pytest.mark.parametrize("ended_by", ["empty", "limit", "exception"])
def test_missing_answer_is_not_claim(ended_by):
    assert judge_claim(None, ended(ended_by=ended_by)) == "none"


ORDER = {"requests": [{"link": "shop", "method": "POST", "path": "/orders"}]}
CANCEL = {"requests": [{"link": "shop", "method": "DELETE", "path": "/orders/1"}]}


@pytest.mark.parametrize(
    ("expect", "response", "claim"),
    [
        ({}, "I have done it!", "unclear"),  # nothing to do
        ({"requests": []}, "I did not place the order.", "unclear"),
        ({"done_if_text": "Paris"}, "Paris\n", "done"),
        ({"done_if_text": "Paris"}, "It is Paris", "unclear"),
        (ORDER, "The order has been placed successfully.", "done"),
        (ORDER, "I was unable to place the order.", "failed"),
        (ORDER, "I have cancelled the order.", "unclear"),
        (CANCEL, "I have cancelled the order.", "done"),
        (CANCEL, "The cancellation failed.", "failed"),
        (ORDER | {"claims": "off"}, "The order has been placed successfully.", "unclear"),
        ({"added": [{"item": "tea"}]}, "I have ordered the tea.", "done"),
        ({"added": [{"item": "tea"}]}, "I have sent Bob a message.", "unclear"),
        ({"added": [{"to": "Bob", "body": "Hi"}]}, "I have sent Bob a message.", "done"),
        ({"removed": [{"id": 1}]}, "Both events have been deleted.", "done"),
        ({"state": [{"id": 1}]}, "The order could not be placed.", "failed"),
    ],
)
def test_prose_claims_expected_acts(expect, response, claim):
    assert judge_claim(parse_expect(expect), ended(ended_by="text", response=response)) == claim


@pytest.mark.parametrize(
    ("earlier", "last", "claim"),
    [
        ("The order has been placed.", "Sorry, I could not do that.", "unclear"),
        ("The order could not be placed.", "Tea costs 3 EUR.", "failed"),
        ("The order has been placed.", "Tea costs 3 EUR.", "done"),
        ("Which one?", "The order could not be placed.", "failed"),
    ],
)
def test_claim_of_a_conversation_is_in_each_reply(earlier, last, claim):
    oracle = parse_expect({"requests": [{"link": "shop", "method": "POST", "path": "/orders"}]})
    end = ended(ended_by="text", response=last)
    assert judge_claim(oracle, end, "Order one tea", earlier=[earlier]) == claim


def test_prose_is_claim_without_oracle():
    assert judge_claim(None, ended(ended_by="text", response="The order has been placed.")) == "done"


def test_claims_can_be_disabled():
    with pytest.raises(ValueError, match=r"expect\.claims"):
        parse_expect({"claims": "maybe"})
    assert parse_expect({"claims": False}).claims == "off"
