import pytest

from tests.judging.oracle.histories import ended
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.outcome import judge_claim


@pytest.mark.parametrize("status", ["done", "failed", "unsure"])
def test_the_report_says_it(status):
    assert judge_claim(None, ended(status)) == status


@pytest.mark.parametrize("ended_by", ["empty", "limit", "exception"])
def test_no_answer_is_no_claim(ended_by):
    assert judge_claim(None, ended(ended_by=ended_by)) == "none"


@pytest.mark.parametrize(
    ("expect", "response", "claim"),
    [
        ({}, "I have done it!", "unclear"),
        ({"done_if_text": "Paris"}, "Paris\n", "done"),
        ({"done_if_text": "Paris"}, "It is Paris", "unclear"),
    ],
)
def test_a_text_is_unclear_unless_it_is_the_exact_one(expect, response, claim):
    assert judge_claim(parse_expect(expect), ended(ended_by="text", response=response)) == claim
