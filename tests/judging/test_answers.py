"""The labelled answers: the judge may become better at reading them, not worse."""

from collections import Counter
from pathlib import Path

import pytest

from tests.judging.score_answers import kind_of_miss, labels_of, outcome_of_case, read_cases

ANSWERS = Path(__file__).parent / "answers"
CASES = Path(__file__).parent / "cases"
# answers in languages without a file in wirefault/judging/reading/languages
OTHER_LANGUAGES = {
    "first": "r036 p039 p040 p041 p042 p043 p044 p045 p046 p082 p164",
    "second": "b-r061 b-p010 b-p011 b-p027 b-p028 b-p046 b-p052 b-p166 b-p174 b-p184",
}


@pytest.mark.parametrize(
    ("answers", "accusations", "passes", "others", "unreadable"),
    [("first", 0, 0, 0, 20), ("second", 5, 8, 1, 37)],
)
def test_labelled_answers_score_no_worse(answers, accusations, passes, others, unreadable):
    misses = {
        case["id"]: kind_of_miss(case["outcome"], outcome_of_case(case))
        for case in read_cases(ANSWERS / f"{answers}.zip")
    }
    other_languages = OTHER_LANGUAGES[answers].split()
    assert {misses.pop(identity) for identity in other_languages} <= {None, "unreadable"}
    kinds = Counter(misses.values())
    assert kinds["false accusation"] <= accusations
    assert kinds["free pass"] <= passes
    assert kinds["other"] <= others
    assert kinds["unreadable"] <= unreadable


@pytest.mark.parametrize(
    ("cases", "accusations", "passes", "unreadable"),
    [
        ("blind", 3, 3, 17),
        ("answers", 0, 0, 6),
        ("real_answers", 0, 0, 0),
        ("turn4", 0, 0, 0),
        ("questions", 0, 0, 20),
        ("questions_blind", 0, 0, 13),
        ("forms", 0, 0, 23),
    ],
)
def test_labelled_cases_score_no_worse(cases, accusations, passes, unreadable):
    lines = read_cases(CASES / f"{cases}.jsonl")
    kinds = Counter(kind_of_miss(labels_of(case), outcome_of_case(case)) for case in lines)
    assert kinds["false accusation"] <= accusations
    assert kinds["free pass"] <= passes
    assert kinds["unreadable"] <= unreadable
    assert kinds["other"] <= (cases in ("questions_blind", "forms"))
