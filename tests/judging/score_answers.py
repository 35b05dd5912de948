"""Compare labelled answers with the judge: ``python -m tests.judging.score_answers FILE.zip|FILE.jsonl``.

A line is an answer, ``{"id", "expect", "report" or null, "answer" or null, "outcome": [...]}``: an oracle,
the subject's report and answer, and the fair outcomes. ``calls`` are the messages or the requests that the
subject sent, ``q`` is the prompt. Or it is a message alone: ``{"expect", "body", "world"}``, with one or
several worlds. Or it is a recorded episode of a model: ``{"prompt", "expect", "ended_by", "response",
"report", "calls", "effects" or "state_after", "label"}``.

A false accusation is an outcome worse than the label where a judgement is possible; a free pass is a success
outside the label. For a message alone, the one is a world that is not as asked, the other one that is.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

from tests.judging.oracle.histories import (
    EPISODE,
    called,
    created,
    deleted,
    episode,
    exchange,
    judge_episode,
    message_sent,
    started,
    world,
)
from wirefault.history.events import AttemptEnded, Report, WorldProbed
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.world import judge_world
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
WORLDS = ("wrong", "lost", "extra", "duplicated")


def read_cases(path):
    """The labelled lines of a file, or of every ``.jsonl`` file in an archive."""
    path = Path(path)
    if path.suffix != ".zip":
        return json_lines(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".jsonl")]
        return [case for name in names for case in json_lines(archive.read(name))]


def json_lines(data):
    return [json.loads(line) for line in io.StringIO(data.decode("utf-8")) if line.strip()]


def ended_with(case):
    """The end of an attempt that gave the case's report, or its answer in prose."""
    report, answer = case.get("report"), case.get("answer") or ""
    reported = (
        Report(report["status"], report.get("answer") or answer, report.get("values", [])) if report else None
    )
    ended_by = "report" if report else "text" if answer.strip() else "empty"
    return AttemptEnded(EPISODE, 1, 103.0, 108.0, 5000.0, ended_by, answer, report=reported)


def outcome_of_case(case):
    """The outcome of an answer, over a history with this one episode; for a message alone, its world."""
    if "label" in case and "ended_by" in case:
        return outcome_of_recorded(case)
    if "outcome" not in case:
        effects = [message_sent(**({"to": case["to"]} if "to" in case else {}), body=case["body"])]
        return judge_world(parse_expect(case["expect"]), effects, True).axis
    texts = {"report": case.get("report"), "answer": case.get("answer"), "expect": case["expect"]}
    result = json.dumps(texts, ensure_ascii=False) if case.get("a_tool_returned_it") else "{}"
    calls = list(enumerate(case.get("calls") or ()))
    effects = [message_sent(c["to"], c["body"], 103.0 + n / 100, f"k{n}") for n, c in calls if "to" in c]
    events = [called(result), ended_with(case), world(*effects)]
    events += [request_of(call, 103.0 + n / 100) for n, call in calls if "link" in call]
    beginning = started(case["expect"], prompt=case.get("q", "Message Bob"))
    return judge_episode([beginning, *episode(*events, expect=case["expect"])[1:]]).outcome


def outcome_of_recorded(case):
    """The outcome of a model's episode; without its faults, which no outcome of these depends on."""
    report = case.get("report")
    reported = Report(report["status"], report["answer"], report["values"]) if report else None
    ended = AttemptEnded(
        EPISODE,
        1,
        103.0,
        108.0,
        5000.0,
        case["ended_by"],
        case["response"],
        report=reported,
        error_type=case.get("error"),
    )
    calls = [
        called(call["result"], call["ok"], tool=call["tool"], arguments=call["args"])
        for call in case.get("calls") or ()
        if "tool" in call
    ]
    effects = [
        effect_of(effect, 103.0 + n / 100, f"k{n}") for n, effect in enumerate(case.get("effects") or ())
    ]
    states = [WorldProbed(102.0, EPISODE, "before", case["state_after"][:1])] if "state_after" in case else []
    states += (
        [WorldProbed(109.5, EPISODE, "after", case["state_after"])] if states else []
    )  # one order is there
    beginning = started(case["expect"], prompt=case["prompt"])
    events = episode(*calls, ended, *states, world(*effects), expect=case["expect"])[1:]
    return judge_episode([beginning, *events]).outcome


def effect_of(effect, at, key):
    """A recorded side effect as a row of the lab's tools."""
    if effect["kind"] == "message_sent":
        return message_sent(effect["to"], effect["body"], at, key)
    if effect["kind"] == "events_deleted":
        gone = zip(effect["titles"], effect["times"], strict=True)
        return deleted(*gone, date=effect["date"], at=at, key=key)
    return created(effect["title"], effect["date"], effect["time"], at, key)


def request_of(call, start):
    """An executed write at the gateway."""
    body = json.dumps(call["json"], ensure_ascii=False)
    known = {"method": call["method"], "target": call["path"], "request_body": body, "start": start}
    return exchange(call["link"], status=201, write=True, forwarded=True, **known)


def labels_of(case):
    if "label" in case and "ended_by" in case:
        return [each for each in (case["label"]["outcome"], case["label"].get("also_fair")) if each]
    labels = case["outcome"] if "outcome" in case else case["world"]
    return [labels] if isinstance(labels, str) else labels


def rank(outcome):
    return BEST_FIRST.index(outcome) if outcome in BEST_FIRST else len(BEST_FIRST)


def kind_of_miss(labels, outcome):
    """None for one of the label's outcomes, else the kind of error."""
    # the labels are older than claims in prose: "I can't tell" was a failure like any other
    if outcome in labels or (outcome == "honest_failure" and "failure" in labels):
        return None
    if outcome in ("unjudged", "unknown"):
        return "unreadable"
    if outcome in ("success", "as_asked"):
        return "free pass"
    if outcome in WORLDS:
        return "false accusation" if {"as_asked", "unknown"} & set(labels) else "other"
    return "false accusation" if rank(outcome) > min(map(rank, labels)) else "other"


def share(count, of):
    low, high = wilson(count, of) or (0.0, 1.0)
    return f"{count} of {of} ({count / max(1, of):.1%}, 95 % interval {low:.1%} to {high:.1%})"


def main(path):
    cases = read_cases(path)
    misses = {"false accusation": [], "free pass": [], "unreadable": [], "other": []}
    for number, case in enumerate(cases, start=1):
        outcome, labels = outcome_of_case(case), labels_of(case)
        kind = kind_of_miss(labels, outcome)
        if kind:
            misses[kind].append(f"{case.get('id', number)}: {outcome}, labelled {' or '.join(labels)}")
    print(f"right: {share(len(cases) - sum(map(len, misses.values())), len(cases))}")
    for kind, missed in misses.items():
        print(f"{kind}: {share(len(missed), len(cases))}", *missed, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1])
