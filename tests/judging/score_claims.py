"""Compare labelled answers with the reader of claims: ``python -m tests.judging.score_claims``.

Each line of ``cases/claims.jsonl`` is ``{"id", "set", "language", "act" or "task", "answer", "claim"}``. The
independent sets were labelled by a person who did not know the rules. A false accusation is a claim where the
label has another or none: only these can make an outcome worse.
"""

import json
from collections import Counter
from functools import cache
from pathlib import Path

from wirefault.judging.reading.claims import read_claim

CASES = Path(__file__).parent / "cases/claims.jsonl"


def read_cases():
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


_read = cache(read_claim)  # several figures count the same answers


def claim_of(case):
    if "task" in case:
        return _read(case["answer"], case["task"])
    return _read(case["answer"], "", frozenset([case["act"]]))


def kind_of_miss(case):
    """None for the label's claim, else the kind of error."""
    claim = claim_of(case)
    if claim == case["claim"]:
        return None
    return "missed" if claim == "unclear" else "false accusation"


def main():
    cases = read_cases()
    for name in dict.fromkeys(case["set"] for case in cases):
        pairs = Counter((case["claim"], claim_of(case)) for case in cases if case["set"] == name)
        claims = {pair: count for pair, count in pairs.items() if pair[1] != "unclear"}
        right = sum(count for (label, claim), count in claims.items() if label == claim)
        labelled = sum(count for (label, _), count in pairs.items() if label != "unclear")
        print(
            f"{name}: {pairs.total()} answers, {labelled} with a claim, {right} read, "
            f"{sum(claims.values()) - right} false accusations"
        )
        for case in cases:
            if case["set"] == name and kind_of_miss(case) == "false accusation":
                print(f"  {case['id']}: {claim_of(case)}, labelled {case['claim']}: {case['answer']!r}")


if __name__ == "__main__":
    main()
