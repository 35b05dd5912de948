"""The shipped experiments, run by one command, each with its expected verdict."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import commands
from tests.cli_process import CliProcess
from tests.lab.demos import environ_in
from tests.support import ROOT, RUN_PATIENCE_S, until
from wirefault.experiments.saved import load_saved

pytestmark = pytest.mark.slow

VERDICTS = {
    "abort-on-error-rate": ("aborted", "error_rate > 70 %"),
    "wrong-tool-data": ("held", "all of"),
    "careless-agent": ("held", "all of 1 statements held, without faults"),
    "duel": ("held", "all of"),
    "fabricated-answer": ("deviated", "method: no false_success: false_success 4 of 4"),
    "short-outage": ("held", "all of"),
    "decided-rate": ("held", "all of"),
    "rate-limits-and-slow-tools": ("held", "all of"),
    "lost-replies": ("held", "all of"),
    "twelve-modes": ("held", "all of"),
    "no-steady-state": ("unknown", "it was not in its steady state before any fault"),
}


# its second arm takes a while
WAITING = """
title: Slow tools
only: ["1", "2"]
seed: 1
method:
  faults: {toxics: [{toxic: latency, links: tools, with: {latency: 900}}]}
hypothesis: [no crash]
"""


def wirefault(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return commands.wirefault(folder, environ_in(folder), *words)


def start_wirefault(folder: Path, *words: str) -> CliProcess:
    return CliProcess(folder, environ_in(folder), *words)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return wirefault(folder, "run", *words, "--toxiproxy", "embedded")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """The printed verdict of each experiment, by file name."""
    names = sorted(path.stem for path in (ROOT / "experiments").glob("*.yaml"))
    done = run(folder, str(ROOT / "experiments"), "--json", "--junit", "junit.xml")
    assert done.returncode == 1, done.stderr  # the gravest: one of them deviates
    return dict(zip(names, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", VERDICTS)
def test_shipped_experiment_has_expected_verdict(verdicts: dict[str, dict[str, Any]], name: str) -> None:
    verdict, because = VERDICTS[name]
    assert (verdicts[name]["verdict"], verdicts[name]["because"][: len(because)]) == (verdict, because)


def test_shipped_claim_is_decided_after_three_passes(verdicts: dict[str, dict[str, Any]]) -> None:
    [claim] = [check for check in verdicts["decided-rate"]["checks"] if check["kind"] == "claim"]
    assert (claim["statement"], claim["verdict"]) == ("success_rate >= 60 %", "held")
    assert claim["message"].startswith("decided after 9 episodes")


def test_each_shipped_experiment_is_tested(verdicts: dict[str, dict[str, Any]]) -> None:
    assert verdicts.keys() == VERDICTS.keys()


def test_verdict_and_runs_are_saved(verdicts: dict[str, dict[str, Any]], folder: Path) -> None:
    for verdict in verdicts.values():
        saved_folder = folder / ".wirefault" / "logs" / "experiments" / verdict["experiment"]
        saved = json.loads((saved_folder / "verdict.json").read_text())
        assert {key: value for key, value in saved.items() if key != "worst"} == verdict
        assert re.fullmatch(r"(harmful|risky|wasteful): \w+|", saved["worst"])
        for arm in verdict["arms"]:
            [run_id] = arm["run_ids"]
            assert (folder / ".wirefault" / "logs" / "runs" / run_id).is_dir()
            assert run_id in (saved_folder / f"{run_id}.txt").read_text()


def test_failed_experiment_ends_with_reason(verdicts: dict[str, dict[str, Any]], folder: Path) -> None:
    report = wirefault(folder, "report", verdicts["fabricated-answer"]["experiment"]).stdout
    [why] = re.findall(r"^why: wirefault (show .*)$", report, re.MULTILINE)
    timeline = wirefault(folder, *shlex.split(why))
    assert timeline.returncode == 0 and timeline.stdout.startswith("false_success"), timeline.stderr


def test_failures_are_recomputed_from_recorded_tries(
    verdicts: dict[str, dict[str, Any]], folder: Path
) -> None:
    [arm] = [a for a in verdicts["rate-limits-and-slow-tools"]["arms"] if a["arm"] == "rate-limits"]
    [run_id] = arm["run_ids"]
    history = folder / ".wirefault" / "logs" / "runs" / run_id / "agent-0.jsonl"
    rows = [json.loads(line) for line in history.read_text().splitlines()]
    tries = [row for row in rows if row.get("event") in ("tool_try", "model_call")]
    failed = [row for row in tries if row.get("error") or (row.get("status") or 0) >= 400]
    episodes = sum(row.get("event") == "episode_judged" for row in rows)
    costs = {each["name"]: each for each in arm["resilience"]["cost_of_faults"]}
    seconds = costs["cost_of_faults_seconds"]
    assert failed and seconds["estimate"] == pytest.approx(sum(row["ms"] for row in failed) / 1000 / episodes)
    assert f"({len(failed)} of {len(tries)} tries failed" in seconds["note"] and seconds["n"] == episodes
    assert seconds["added"]["estimate"] == pytest.approx(seconds["estimate"])  # nothing fails in the control
    every = arm["resilience"]["recovery"]["rows"][0]
    assert every["failures"] >= every["recovered"] > 0 and every["p50_seconds"] > 0
    calls = [row for row in arm["resilience"]["reliability"] if row["operation"] == "all"]
    assert sum(row["n"] for row in calls) <= len(tries) and calls[0]["availability"] > 0.5
    parts = {each["part"]: each["estimate"] for each in arm["resilience"]["recovery_quality"]}
    assert len(parts) == 5 and parts["timeliness"] > 0


def test_run_report_and_console_agree(verdicts: dict[str, dict[str, Any]], folder: Path) -> None:
    verdict = verdicts["rate-limits-and-slow-tools"]
    report = json.loads(wirefault(folder, "report", verdict["experiment"], "--json").stdout)
    differ = {key for key in {*verdict, *report} if verdict.get(key) != report.get(key)}
    assert differ == {"timing", "evidence", "figures"}  # of the run, of its files since, of its page
    console = " ".join(wirefault(folder, "report", verdict["experiment"]).stdout.split())
    for effect in verdict["effects"]:
        sides = (f"{effect[side]} of {effect[f'{side}_judged']}" for side in ("control", "struck"))
        figures = (effect["planned"], effect["drawn"], effect["alone"], *sides)
        assert f"{effect['arm']} {effect['fault']} {' '.join(map(str, figures))}" in console
    reasons = verdict["not_reproducible_because"]
    for arm, because in reasons.items():
        assert f"{arm}, reproducible: no, because {'; '.join(because)}" in console
    assert bool(reasons) != ("reproducible: yes" in console)
    assert "cost_of_faults_seconds" in console and "recovery quality" in console


def test_junit_counts_unknown_as_error(verdicts: dict[str, dict[str, Any]], folder: Path) -> None:
    suites = ElementTree.parse(folder / "junit.xml").getroot()
    counts = [(suite.get("failures"), suite.get("errors")) for suite in suites]
    expected = []
    for verdict in verdicts.values():
        broke = sum(check["verdict"] == "deviated" for check in verdict["checks"])
        unknown = sum(check["verdict"] == "unknown" for check in verdict["checks"])
        # in an unknown verdict, what broke is the control
        expected.append((0, unknown + broke) if verdict["verdict"] == "unknown" else (broke, unknown))
    assert counts == [(str(failures), str(errors)) for failures, errors in expected]


def test_aborted_experiment_stays_aborted_and_healed(
    verdicts: dict[str, dict[str, Any]], folder: Path
) -> None:
    """Its toxics were in force when it was ended, between its fifth episode and its last."""
    verdict = verdicts["abort-on-error-rate"]
    [method] = [arm for arm in verdict["arms"] if arm["arm"] == "method"]
    assert verdict["rollback"] == "verified" and 5 <= judged(folder, *method["run_ids"]) < 20
    again = wirefault(folder, "report", verdict["experiment"], "--json")
    assert (again.returncode, json.loads(again.stdout)["because"]) == (2, verdict["because"])
    refused = wirefault(folder, "run", "--resume", verdict["experiment"], "--toxiproxy", "embedded")
    assert refused.returncode == 64 and "was aborted" in refused.stderr


def judged(folder: Path, *run_ids: str) -> int:
    """How many episodes of these runs were judged."""
    files = [folder / ".wirefault" / "logs" / "runs" / run_id / "agent-0.jsonl" for run_id in run_ids]
    return sum(file.read_text().count("episode_judged") for file in files)


def test_excessive_dose_is_identified(folder: Path) -> None:
    file = str(ROOT / "experiments" / "fabricated-answer.yaml")
    words = ["--levels", "0.25,1", "--repeats", "1", "--only", "2", "--json", "--toxiproxy", "embedded"]
    done = wirefault(folder, "run", file, *words)
    document = json.loads(done.stdout)
    assert done.returncode == 1 and "method: the hypothesis held at none of these levels" in done.stderr
    assert [row["level"] for row in document["levels"]] == [0.25, 1.0]


def test_killed_experiment_is_resumed(tmp_path: Path) -> None:
    """Finished runs are kept; the interrupted arm runs again with the same verdict."""
    experiment = tmp_path / "exp.yaml"
    experiment.write_text(WAITING, encoding="utf-8")
    words = ["run", str(experiment), "--toxiproxy", "embedded", "--set", "attempt_time=60"]
    with start_wirefault(tmp_path, *words) as killed:
        until(
            lambda: list(tmp_path.glob(".wirefault/logs/runs/*-2-method/gateway-0.jsonl")),
            patience=RUN_PATIENCE_S,
        )
        killed.kill()
    [folder] = tmp_path.glob(".wirefault/logs/experiments/*")
    report = wirefault(tmp_path, "report", "latest")
    resume = f"wirefault run --resume {folder.name}\n"
    assert report.returncode == 2 and f"to resume it: {resume}" in report.stdout
    assert "interrupted; worst finding so far: " in report.stdout
    for words in (("list",), ("show", "latest", "--arm=control"), ("report", "latest", "--md", "-")):
        printed = wirefault(tmp_path, *words).stdout
        assert "interrupted" in printed and resume in printed, words
    done = wirefault(tmp_path, "run", "--resume", "latest", "--toxiproxy", "embedded")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = sorted(path.name.removeprefix(folder.name) for path in tmp_path.glob(".wirefault/logs/runs/*"))
    assert runs == ["-1-control", "-2-method", "-2-method.2", "-3-control-after"]
    assert wirefault(tmp_path, "report", "latest").returncode == 0
    assert "held" in wirefault(tmp_path, "list").stdout


def test_missing_experiment_starts_nothing(folder: Path) -> None:
    done = run(folder, "nowhere.yaml")
    assert (done.returncode, done.stdout) == (64, "") and "nowhere.yaml: cannot be read" in done.stderr


def test_experiment_with_generated_turns_has_verdict(tmp_path: Path) -> None:
    talk = ROOT / "experiments" / "conversation" / "busy-model.yaml"
    done = run(tmp_path, str(talk), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    measures = document["arms"][1]["measures"]
    assert document["verdict"] == "held" and measures["faults_delivered"]["estimate"] == 2


def test_workers_do_not_change_run_experiment(tmp_path: Path) -> None:
    calm = ("--only=1", "--only=2", "--only=3", "--seed=3", "--no-charts", "--json", "--toxiproxy=embedded")
    alone, together = (wirefault(tmp_path, "demo", *calm, f"--workers={count}") for count in (1, 2))
    assert (alone.returncode, together.returncode) == (0, 0), alone.stderr + together.stderr
    one, two = json.loads(alone.stdout), json.loads(together.stdout)
    of_one, of_two = ({each["episode"]: each["outcome"] for each in run["episodes"]} for run in (one, two))
    assert len(of_one) == 3 and of_one == of_two and one["faults"] == two["faults"]
    listed = wirefault(tmp_path, "list").stdout.splitlines()[1:]
    assert {line.split()[1] for line in listed} <= {"nothing", "risk"}  # a retry storm is one by its pauses


def test_interrupted_run_is_resumed(tmp_path: Path) -> None:
    slow = ("--only=1", "--only=2", "--seed=1", "--toxic-prob=1", "--toxics=latency:900", "--error-prob=0")
    broken = start_wirefault(tmp_path, "demo", *slow, "--no-charts", "--toxiproxy=embedded")
    until(lambda: any(tmp_path.glob(".wirefault/logs/runs/*/gateway-0.jsonl")), patience=RUN_PATIENCE_S)
    broken.kill()
    broken.wait()
    resumed = wirefault(tmp_path, "run", "--resume", "latest", "--toxiproxy", "embedded")
    assert resumed.returncode == 0, resumed.stderr
    [experiment] = (tmp_path / ".wirefault" / "logs" / "experiments").iterdir()
    [arm] = (
        saved := load_saved(
            tmp_path / ".wirefault" / "logs", experiment.name, {"LOGS_DIR": f"{tmp_path}/.wirefault/logs"}
        )
    ).plan.arms
    assert {episode.episode for episode in saved.facts_of(arm).episodes} == {
        prompt.key for prompt in saved.plan.prompts
    }
    assert f"wirefault run --again {experiment.name}" in resumed.stdout
