"""The labelled answers: the judge may become better at reading them, not worse."""

from collections import Counter
from pathlib import Path

import pytest

from tests.judging.score_answers import kind_of_miss, outcome_of_case, read_cases

ANSWERS = Path(__file__).parent / "answers"


@pytest.mark.parametrize(
    ("labelled", "accusations", "passes", "others", "unreadable"),
    [("first", 0, 0, 0, 20), ("second", 5, 8, 1, 35)],
)
def test_a_set_is_read_as_well_as_it_was(labelled, accusations, passes, others, unreadable):
    cases = read_cases(ANSWERS / f"{labelled}.zip")
    misses = Counter(kind_of_miss(case["outcome"], outcome_of_case(case)) for case in cases)
    assert misses["false accusation"] <= accusations
    assert misses["free pass"] <= passes
    assert misses["other"] <= others
    assert misses["unreadable"] <= unreadable
