"""Labelled answers, each with the outcomes that a fair judge gives it."""

import json
from pathlib import Path

import pytest

from tests.judging.oracle.histories import called, ended, episode, message_sent
from wirefault.judging.judge import judge_trace
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.oracle.value import judge_value
from wirefault.judging.oracle.world import judge_world
from wirefault.judging.reading.stated import stated
from wirefault.judging.trace import episode_trace

CASES = Path(__file__).parent / "cases"


def cases(name):
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def judged(expect, report, a_tool_returned_it):
    result = json.dumps(report["values"], ensure_ascii=False) if a_tool_returned_it else "{}"
    events = episode(called(result), ended(report["status"], report["values"]), expect=expect)
    return judge_trace(episode_trace(events)).outcome


@pytest.mark.parametrize("case", cases("oracle_values.jsonl"), ids=lambda case: case["id"])
def test_reports_have_their_labelled_outcome(case):
    assert judged(case["expect"], case["report"], case["a_tool_returned_it"]) in case["outcome"]


@pytest.mark.parametrize("case", cases("message_bodies.jsonl"), ids=lambda case: case["body"])
def test_messages_have_their_labelled_world(case):
    assert (
        judge_world(parse_expect(case["expect"]), [message_sent(body=case["body"])], True).axis
        == case["world"]
    )


# kinds.jsonl: corrections, "free", changes, units in keys, quantities of something else, in four languages
@pytest.mark.parametrize(
    "case", cases("prose.jsonl") + cases("kinds.jsonl"), ids=lambda case: case["text"][:40]
)
def test_prose_has_its_labelled_meaning(case):
    assert stated(Slot.model_validate(case["asked"]), case["text"]) in case["says"]


@pytest.mark.parametrize("case", cases("reports.jsonl"), ids=lambda case: str(case["report"])[:60])
def test_reported_values_have_their_labelled_axis(case):
    assert judge_value(parse_expect({"values": case["values"]}).values, case["report"]).axis in case["axis"]
