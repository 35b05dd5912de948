"""Combined facts of runs: each episode comes from the run that counts, and facts are cached while valid."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.experiments.recorded_runs import episode_events, invalid, write
from tests.judging.oracle.histories import exchange, run_finished, run_started
from tests.support import replace
from wirefault.experiments import facts_store as facts_file
from wirefault.experiments.arms import ArmFacts, put_together
from wirefault.experiments.facts import RunFacts
from wirefault.experiments.facts_store import FactsStore
from wirefault.history.reader import read_run


def facts(logs: Path, run_ids: Sequence[str], planned: int) -> ArmFacts:
    runs = [store(logs).read(run_id, ()) for run_id in run_ids]
    return put_together(runs, planned)


def keys(arm: ArmFacts) -> list[str]:
    return [episode.episode for episode in arm.episodes]


def test_verdicts_of_killed_run_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "a", [run_started(3), *episode_events("one"), *episode_events("two", judged=False)])
    write(tmp_path, "a.2", [run_started(2), *episode_events("two"), *episode_events("three"), run_finished()])
    broken = facts(tmp_path, ["a"], 3)
    assert (keys(broken), broken.missing) == (["one"], 2)
    assert broken.failure == "2 episodes did not complete: the run a ended early: it was killed"
    whole = facts(tmp_path, ["a", "a.2"], 3)
    assert (keys(whole), whole.problems, whole.failure) == (["one", "two", "three"], (), "")
    assert (len(whole.keys("success")), whole.planned) == (3, 3)


def test_missing_history_is_reported(tmp_path: Path) -> None:
    assert "the history of a cannot be read" in facts(tmp_path, ["a"], 1).problems[0]
    assert facts(tmp_path, [], 1).problems == ("it has no run",)


def test_invalid_episode_counts_by_its_rerun_and_both_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "a", [run_started(2), *invalid("one"), *episode_events("two"), run_finished()])
    once = facts(tmp_path, ["a"], 2)
    assert (set(keys(once)), once.invalid, once.superseded) == ({"one", "two"}, {"one": 1}, ())
    write(tmp_path, "a.2", [run_started(1), *episode_events("one"), run_finished()])
    again = facts(tmp_path, ["a", "a.2"], 2)
    assert again.invalid == {} and len(again.keys("success")) == 2
    assert list(again.superseded) == ["one in a: not armed within 2 s"]


def test_permanently_invalid_episode_reports_tries(tmp_path: Path) -> None:
    for run_id in ("a", "a.2", "a.3"):
        write(tmp_path, run_id, [run_started(1), *invalid("one"), run_finished()])
    arm = facts(tmp_path, ["a", "a.2", "a.3"], 1)
    assert arm.invalid == {"one": 3} and len(arm.superseded) == 2
    assert arm.failure == "the lab failed in every episode: not armed within 2 s"
    assert len(arm.episodes) == 1


def test_run_failure_is_not_verdict_on_last_episode(tmp_path: Path) -> None:
    lost = replace(run_finished(), completed=False, reason="gateway was killed")
    write(tmp_path, "a", [run_started(2), *episode_events("one"), *invalid("two"), lost])
    broken = facts(tmp_path, ["a"], 2)
    assert keys(broken) == ["one"] and broken.invalid == {}
    assert broken.problems == ("the run a ended early: gateway was killed",)
    write(tmp_path, "a.2", [run_started(1), *episode_events("two"), run_finished()])
    whole = facts(tmp_path, ["a", "a.2"], 2)
    assert keys(whole) == ["one", "two"] and [" in a: " in each for each in whole.superseded] == [True]


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of runs whose facts were recomputed, in order."""
    run_ids: list[str] = []
    work_out = facts_file.facts_in

    def noted(run_id: str, *recorded: object, **options: bool) -> RunFacts:
        run_ids.append(run_id)
        return work_out(run_id, *recorded, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(facts_file, "facts_in", noted)
    return run_ids


def store(logs: Path, *, trusted: bool = True) -> FactsStore:
    return FactsStore(logs, logs / "experiments" / "x" / "facts", trusted=trusted)


def test_only_changed_history_is_judged_again(tmp_path: Path, worked_out: list[str]) -> None:
    write(tmp_path, "a", [run_started(1), *episode_events("one"), run_finished()])
    store_once = store(tmp_path)
    first = store_once.read("a", ())
    assert store_once.read("a", ()) == first and worked_out == ["a"]
    file = tmp_path / "runs" / "a" / "agent-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"success"', b'"failure"'))
    assert read_run(tmp_path, "a")
    store_once.read("a", ())
    assert worked_out == ["a", "a"]


def test_stored_facts_are_used_only_if_trusted(tmp_path: Path, worked_out: list[str]) -> None:
    write(tmp_path, "a", [run_started(1), *episode_events("one"), run_finished()])
    first = store(tmp_path)
    plain = first.read("a", ())
    first.write()
    assert store(tmp_path).read("a", ()) == plain and worked_out == ["a"]
    assert store(tmp_path, trusted=False).read("a", ()) == plain and worked_out == ["a"] * 2
    assert store(tmp_path).read("a", ("completes",)).episodes[0].asserted
    stored = tmp_path / "experiments" / "x" / "facts" / "a.json"
    stored.write_bytes(stored.read_bytes()[:-9])
    assert store(tmp_path).read("a", ()) == plain and worked_out == ["a"] * 4


def test_unbounded_sum_is_saved(tmp_path: Path, worked_out: list[str]) -> None:
    silent = replace(exchange(link="model", dialect="openai_chat"), episode="one")
    write(tmp_path, "a", [run_started(1), *episode_events("one"), silent, run_finished()])
    entries = ({"statement": {"text": "tokens <= 9", "over": "arm"}},)
    writer = store(tmp_path)
    first = writer.read("a", entries)
    writer.write()
    [figures] = first.episodes[0].asserted
    assert isinstance(figures, tuple) and figures[0].bounds.high == math.inf
    assert store(tmp_path).read("a", entries) == first
    assert worked_out == ["a"]


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns after each few instructions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_threads_of_lanes_share_store(tmp_path: Path, switching: None) -> None:
    run_ids = [f"a.{number}" for number in range(2, 150)]
    for run_id in run_ids:
        write(tmp_path, run_id, [run_started(1), *episode_events("one"), run_finished()])
    shared = store(tmp_path)
    with ThreadPoolExecutor(8) as lanes:
        read = list(lanes.map(lambda run_id: shared.read(run_id, ()), run_ids))
    assert [each.run_id for each in read if not each.problem] == run_ids
