"""The command that a run which did not go well ends with."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs

from tests.judging.oracle.histories import ASK_BOB, ended, episode, judge_episode
from tests.report.synthetic import SyntheticRun
from wirefault.cli.main import main
from wirefault.history.judged_events import Finding, Severity
from wirefault.judging.findings.finding import worst_finding, worst_of
from wirefault.report.next_command import why_line, worst_episode

GOOD = judge_episode(episode(name="good", expect={}))
LOST = judge_episode(episode(name="lost", expect=ASK_BOB))  # false success
CRASHED = judge_episode(episode(ended(ended_by="exception"), name="crashed", expect={}))
RUN = "20260101-000000-aaaaaa"


def finding(episode: str, severity: Severity) -> Finding:
    return Finding("rule", severity, "It did that.", episode, ("gateway-0:1",))


def test_run_without_failures_has_no_command() -> None:
    assert worst_episode([GOOD], [finding("good", "note")]) == ""


def test_episodes_are_ordered_by_findings_then_outcome() -> None:
    assert worst_episode([GOOD, CRASHED, LOST], []) == "lost"
    assert worst_episode([CRASHED, GOOD], [finding("good", "harmful")]) == "good"
    other = judge_episode(episode(name="other", expect=ASK_BOB))
    assert worst_episode([LOST, other], [finding("other", "risky")]) == "other"


def test_worst_finding_is_the_first_of_the_most_severe() -> None:
    findings = [finding("good", "risky"), finding("lost", "harmful"), finding("crashed", "harmful")]
    renamed = structs.replace(findings[2], rule="a rule before the other by name")
    assert worst_finding([*findings[:2], renamed]) == "harmful: rule"
    assert worst_of([*findings[:2], renamed]) == findings[1]
    assert worst_finding([finding("good", "note")]) == "" and worst_of([]) is None
    assert worst_episode([CRASHED, LOST, GOOD], [*findings[:2], renamed]) == "lost"


def test_finding_alone_selects_episode() -> None:
    assert worst_episode([GOOD], [finding("good", "wasteful")]) == "good"


def test_only_episodes_behind_verdict_are_selected() -> None:
    assert worst_episode([GOOD, CRASHED, LOST], [], among=["crashed"]) == "crashed"


@pytest.mark.parametrize("place", [".", "out", "own/.wirefault", "log dir/elsewhere"])
@pytest.mark.parametrize("key", ["e002", "-e002"])
def test_command_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = Path(place) / ("logs" if place != "log dir/elsewhere" else "")
    SyntheticRun(tmp_path / logs, RUN, prompts=3).write()
    if place == "own/.wirefault":
        (tmp_path / "own" / "state").mkdir()
    words = shlex.split(why_line(RUN, key, logs).removeprefix("why: "))
    environ = dict(word.split("=", 1) for word in words[: words.index("wirefault")])
    result = CliRunner().invoke(main, words[words.index("wirefault") + 1 :], env=environ)
    if key == "e002":
        assert f"episode e002 of {RUN}" in result.output, result.output
    else:
        assert f"the run {RUN} has no episode '-e002'" in " ".join(result.output.split())


def test_compose_command_runs_in_agent_container() -> None:
    line = why_line(RUN, "e1", Path("logs"), lab_id="compose")
    assert line.startswith("why: docker compose run --rm agent python -m wirefault show ")
