"""The labelled answers: the judge may become better at reading them, not worse."""

from collections import Counter
from pathlib import Path

from tests.judging.score_answers import kind_of_miss, outcome_of_case, read_cases

ANSWERS = Path(__file__).parent / "answers"


def test_the_first_set_is_read_as_well_as_it_was():
    cases = read_cases(ANSWERS / "first.zip")
    misses = Counter(kind_of_miss(case["outcome"], outcome_of_case(case)) for case in cases)
    assert (misses["false accusation"], misses["free pass"], misses["other"]) == (0, 0, 0)
    assert misses["unreadable"] <= 20
