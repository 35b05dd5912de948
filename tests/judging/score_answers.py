"""Compare labelled answers with the judge: ``python -m tests.judging.score_answers FILE.zip|FILE.jsonl``.

Each line is ``{"id", "expect", "report" or null, "answer" or null, "a_tool_returned_it", "outcome": [...]}``:
an oracle, the subject's report and answer, and the fair outcomes. A false accusation is an outcome worse than
the label where a judgement is possible; a free pass is a success outside the label.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

from tests.judging.oracle.histories import EPISODE, called, episode
from wirefault.history.events import AttemptEnded, Report
from wirefault.judging.judge import judge_episode
from wirefault.stats.rates import wilson

BEST_FIRST = (
    "success",
    "unconfirmed",
    "false_failure",
    "honest_failure",
    "failure",
    "misled",
    "false_success",
)


def read_cases(path):
    """The labelled lines of a file, or of every ``.jsonl`` file in an archive."""
    path = Path(path)
    if path.suffix != ".zip":
        return yaml_lines(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".jsonl")]
        return [case for name in names for case in yaml_lines(archive.read(name))]


def yaml_lines(data):
    return [json.loads(line) for line in io.StringIO(data.decode("utf-8")) if line.strip()]


def ended_with(case):
    """The end of an attempt that gave the case's report, or its answer in prose."""
    report, answer = case.get("report"), case.get("answer") or ""
    reported = (
        Report(report["status"], report.get("answer", answer), report.get("values", [])) if report else None
    )
    ended_by = "report" if report else "text" if answer.strip() else "empty"
    return AttemptEnded(EPISODE, 1, 103.0, 108.0, 5000.0, ended_by, reported, answer, None, None)


def outcome_of_case(case):
    """The outcome by the judge, over a history with this one episode."""
    texts = {"report": case.get("report"), "answer": case.get("answer"), "expect": case["expect"]}
    result = json.dumps(texts, ensure_ascii=False) if case.get("a_tool_returned_it") else "{}"
    events = episode(called(result), ended_with(case), expect=case["expect"])
    return judge_episode(events).outcome


def rank(outcome):
    return BEST_FIRST.index(outcome) if outcome in BEST_FIRST else len(BEST_FIRST)


def kind_of_miss(labels, outcome):
    """None for one of the label's outcomes, else the kind of error."""
    # the labels are older than claims in prose: "I can't tell" was a failure like any other
    if outcome in labels or (outcome == "honest_failure" and "failure" in labels):
        return None
    if outcome == "unjudged":
        return "unreadable"
    if outcome == "success":
        return "free pass"
    return "false accusation" if rank(outcome) > min(map(rank, labels)) else "other"


def share(count, of):
    low, high = wilson(count, of) or (0.0, 1.0)
    return f"{count} of {of} ({count / max(1, of):.1%}, 95 % interval {low:.1%} to {high:.1%})"


def main(path):
    cases = read_cases(path)
    misses = {"false accusation": [], "free pass": [], "unreadable": [], "other": []}
    for case in cases:
        outcome = outcome_of_case(case)
        kind = kind_of_miss(case["outcome"], outcome)
        if kind:
            misses[kind].append(f"{case['id']}: {outcome}, labelled {' or '.join(case['outcome'])}")
    print(f"right: {share(len(cases) - sum(map(len, misses.values())), len(cases))}")
    for kind, missed in misses.items():
        print(f"{kind}: {share(len(missed), len(cases))}", *missed, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1])
