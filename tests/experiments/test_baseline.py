"""Baselines: what fails a pipeline, what passes, and files that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests.experiments.test_compare import SavedRuns
from wirefault.core.errors import InputError
from wirefault.experiments.baseline import (
    Gate,
    KnownFinding,
    accepted,
    gate,
    missing_in,
    read_baseline,
    read_fail_on,
    write_baseline,
)
from wirefault.experiments.compare import Side, compare, side_of
from wirefault.history.judged_events import Outcome

NOW = datetime(2026, 11, 27, tzinfo=UTC)
DOUBLED = KnownFinding(
    arm="", rule="repeated_write", call="shop POST /orders", severity="harmful", text="two"
)
LATE = KnownFinding(arm="", rule="late", call="shop GET /orders", severity="note", text="late")


def gated(tmp_path: Path, first: str, second: str, fail_on: str = "degradation > 10 %") -> Gate:
    runs = SavedRuns(tmp_path)
    write_baseline(accepted(side_of(runs.run("run-1", first)), [], "", NOW), tmp_path / "b.json")
    side = read_baseline(tmp_path / "b.json").side
    return gate(compare(side, side_of(runs.run("run-2", second))), read_fail_on(fail_on), [], [])


@pytest.mark.parametrize(
    ("second", "fail_on", "word"),
    [
        ("S" * 6 + "F" * 14, "degradation > 10 %", "failed"),
        ("S" * 6 + "F" * 14, "degradation > 60 %", "passed"),  # the interval includes the margin
        ("S" * 19 + "F", "degradation > 0 %", "passed"),  # one of twenty is weak evidence
        ("S" * 6 + "F" * 4 + "I" * 10, "degradation > 10 %", "unknown"),  # the open ones could decide
        ("I" * 20, "degradation > 10 %", "unknown"),
        ("F" * 20, "new finding", "passed"),
    ],
)
def test_degradation_counts_if_its_interval_excludes_the_margin(
    tmp_path: Path, second: str, fail_on: str, word: str
) -> None:
    assert gated(tmp_path, "S" * 20, second, fail_on).word == word


def test_new_finding_fails_and_accepted_one_does_not(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "SS"))
    same = compare(side, side)
    again = DOUBLED.model_copy(update={"text": "the same in other words"})
    assert gate(same, read_fail_on("new finding"), [DOUBLED], [again]).word == "passed"
    elsewhere = DOUBLED.model_copy(update={"call": "shop POST /refunds"})
    failed = gate(same, read_fail_on("new finding"), [DOUBLED], [elsewhere, LATE])
    assert (failed.word, list(failed.new), list(failed.gone)) == ("failed", [elsewhere, LATE], [DOUBLED])
    assert len(failed.failed) == 1  # notes fail only where they are named
    assert gate(same, read_fail_on("new note finding"), [], [LATE]).word == "failed"
    assert gate(same, read_fail_on("new risky finding"), [], [DOUBLED]).word == "passed"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"question": ""}, True),  # of another command than an audit
        ({"question": "write_hangs, shop POST /orders"}, False),
        ({"arm": "method"}, True),  # of an experiment with a hypothesis
        ({"question": "", "call": "port_9000 POST /orders"}, True),  # a link's name follows from the command
        ({"call": "port_9000 POST /orders", "address": "POST http://127.0.0.1:9001/orders"}, False),
        ({"rule": "late"}, False),
    ],
)
def test_event_is_the_same_in_every_command(other: dict[str, str], same: bool) -> None:
    address = "POST http://127.0.0.1:9000/orders"
    audited = DOUBLED.model_copy(
        update={"question": "lost_reply, shop POST /orders", "address": address, "text": "audited"}
    )
    elsewhere = audited.model_copy(update=other)
    assert (elsewhere.is_same(audited), audited.is_same(elsewhere)) == (same, same)
    assert missing_in([audited], [elsewhere]) == ([] if same else [elsewhere])


@pytest.mark.parametrize("fail_on", [None, "new finding", "degradation > 5 %"])
def test_recording_that_shows_nothing_passes_no_gate(tmp_path: Path, fail_on: str | None) -> None:
    runs = SavedRuns(tmp_path)
    never = json.dumps({"faults": [{"fault": "lose_reply", "only": {"method": "DELETE"}}]})
    side = side_of(runs.run("run-1", "SS"))
    compared = compare(side, side_of(runs.run("run-2", "SS", settings={"faults": never})))
    assert compared.change == "unknown"
    gated = gate(compared, read_fail_on(fail_on), [], [])
    assert gated.word == "unknown" and "no fault was met" in gated.unknown[0]
    assert gate(compared, read_fail_on(fail_on), [], [DOUBLED]).word != "passed"


@pytest.mark.parametrize("fail_on", [None, "new finding", "degradation > 5 %"])
def test_recording_that_did_not_run_to_its_end_passes_no_gate(tmp_path: Path, fail_on: str | None) -> None:
    runs = SavedRuns(tmp_path)
    side = side_of(runs.run("run-1", "SS"))
    compared = compare(side, side_of(runs.run("run-2", "SS", completed=False)))
    gated = gate(compared, read_fail_on(fail_on), [], [])
    assert gated.word == "unknown" and "it did not run to its end" in gated.unknown[0]


def test_crash_without_an_oracle_leaves_the_findings_to_decide(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "S" * 12))
    [(name, arm)] = side.arms.items()
    outcomes: list[Outcome] = ["crash", "crash", *["unjudged"] * 10]
    unjudged = {name: replace(arm, outcomes=dict(zip(arm.outcomes, outcomes, strict=True)))}
    same = compare(replace(side, arms=unjudged), replace(side, arms=unjudged))
    assert gate(same, read_fail_on(None), [], []).word == "passed"
    assert gate(same, read_fail_on("degradation > 0 %"), [], []).word == "unknown"


def test_arm_without_outcomes_is_passed_over_unless_degradation_is_named(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "II"))
    [(name, arm)] = side.arms.items()
    unjudged: dict[str, Outcome | None] = dict.fromkeys(arm.outcomes, "unjudged")
    side = replace(side, arms={name: replace(arm, outcomes=unjudged, shows_nothing="")})
    same = compare(side, side)
    assert gate(same, read_fail_on(None), [], []).word == "passed"
    assert gate(same, read_fail_on("degradation > 0 %"), [], []).word == "unknown"


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("fail_on", [None, "new finding"])
def test_duplicate_by_the_control_of_one_side_is_no_degradation(
    tmp_path: Path, fail_on: str | None, count: int
) -> None:
    """Of two recordings of one event, an experiment alone has an outcome without an oracle."""
    side = side_of(SavedRuns(tmp_path).run("run-1", "S" * count))
    [(name, arm)] = side.arms.items()

    def outcomes(outcome: Outcome, *, has_oracle: bool = False) -> Side:
        judged: dict[str, Outcome | None] = dict.fromkeys(arm.outcomes, outcome)
        return replace(side, arms={name: replace(arm, outcomes=judged, has_oracle=has_oracle)})

    by_run, by_experiment = outcomes("unjudged"), outcomes("duplicate")
    for first, second in ((by_run, by_experiment), (by_experiment, by_run), (by_experiment, by_experiment)):
        assert gate(compare(first, second), read_fail_on(fail_on), [DOUBLED], [DOUBLED]).word == "passed"
    # and a success that an oracle saw can be lost
    succeeded = outcomes("success", has_oracle=True)
    word = gate(compare(succeeded, by_experiment), read_fail_on(None), [DOUBLED], [DOUBLED]).word
    assert word == ("failed" if count == 20 else "passed")  # one pair excludes nothing
    open_ = gate(compare(succeeded, by_run), read_fail_on(None), [DOUBLED], [DOUBLED]).word
    unread = outcomes("unjudged", has_oracle=True)
    assert open_ == gate(compare(unread, by_experiment), read_fail_on(None), [], []).word == "unknown"
    assert compare(by_experiment, by_run).change == "not worse"
    assert gate(compare(by_run, by_experiment), read_fail_on("degradation > 0 %"), [], []).word == "unknown"


def test_missing_arm_is_unknown(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "SS"))
    one = compare(side, side)
    other = type(one)("a", "b", one.arms, ["method"])
    assert gate(other, read_fail_on("new finding"), [], []).word == "unknown"


def test_file_has_no_prompts_and_is_read_back(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "SF"))
    write_baseline(accepted(side, [DOUBLED], "title", NOW), tmp_path / "b.json")
    text = (tmp_path / "b.json").read_text()
    assert all(prompt not in text for arm in side.arms.values() for prompt in arm.prompts.values())
    baseline = read_baseline(tmp_path / "b.json")
    assert list(baseline.findings) == [DOUBLED]
    assert compare(baseline.side, side).change == "not worse"
    ages = [baseline.age_text(NOW + timedelta(days=days)) for days in (-1, 0, 1, 12)]
    assert ages == ["accepted today", "accepted today", "accepted yesterday", "accepted 12 days ago"]


@pytest.mark.parametrize("text", ["{}", "[", "\x00", '{"wirefault_baseline": 2}', "a: 1\na: 2"])
def test_other_file_is_one_error_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"b\.json") as error:
        read_baseline(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "degradation", "degradation > 500 %", "new findings!", "p95 > 3"])
def test_unknown_condition_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="--fail-on"):
        read_fail_on(text)


def test_new_finding_fails_an_unchanged_agent_as_often_as_documented(tmp_path: Path) -> None:
    side = side_of(SavedRuns(tmp_path).run("run-1", "SS"))
    chance, fail_on, same = Random(3), read_fail_on("new finding"), compare(side, side)

    def seen(episodes: int) -> list[KnownFinding]:
        return [DOUBLED] if any(chance.random() < 0.05 for _ in range(episodes)) else []

    failed = sum(gate(same, fail_on, seen(20), seen(20)).word == "failed" for _ in range(2000))
    assert failed / 2000 == pytest.approx(0.23, abs=0.03)
    twenty = side_of(SavedRuns(tmp_path).run("run-2", "S" * 20))
    warned = gate(compare(twenty, twenty), fail_on, [], [DOUBLED], twenty)
    assert "is missing in 35.8 % of recordings with 20 episodes" in warned.chance
    assert gate(compare(twenty, twenty), fail_on, [DOUBLED], [DOUBLED], twenty).chance == ""
