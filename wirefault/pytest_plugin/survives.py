"""``assert_survives``: an experiment on an agent's function, in the lab of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from wirefault.core.errors import InputError, UserError
from wirefault.experiments.episode_view import EpisodeView
from wirefault.experiments.experiment import ANSWERS, CONTROL, METHOD
from wirefault.experiments.in_place import Experiment, run_in_lab
from wirefault.experiments.report import ExperimentReport
from wirefault.history.reader import read_run
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.summary import Summary, summarise
from wirefault.lab.process import LabError
from wirefault.pytest_plugin import option
from wirefault.pytest_plugin.mark import Mark, read_mark
from wirefault.pytest_plugin.session import MarkedTests, fault_line
from wirefault.pytest_plugin.verdict import BAD_TONES, TestVerdict, grave_findings, judge_test
from wirefault.report import next_command

_COMPLETES = "completes"


def survive(
    tests: MarkedTests, agent: Callable[..., object], prompts: Sequence[Any], named: Mapping[str, Any]
) -> ExperimentReport:
    """Run the experiment, and fail the test with a paragraph for each episode that the agent did not survive.

    ``named`` are arguments of the marker.
    """
    lab, _ = tests.running()
    try:
        mark = read_mark((), named, lab.topology.links, option(tests.config, "faults"))
        if not mark.faults:
            raise InputError("faults: missing: name a preset, a fault or a list of faults")
        report = run_in_lab(_experiment(tests, agent, prompts, named, mark), tests.wiring_folder, lab)
    except InputError as error:
        pytest.fail(f"assert_survives: {error}", pytrace=False)
    except (UserError, LabError) as error:
        pytest.fail(f"wirefault: unknown: {error}", pytrace=False)
    arm = METHOD if METHOD in report.arms else CONTROL  # a control that fails is the only arm
    verdict, summary = _verdict(report, mark, arm)
    if verdict.kind == "paid":
        pytest.skip(f"{verdict.reasons[0]}: run it with --wirefault-paid")
    if verdict.kind == "passed" and report.passed:
        return report
    paragraphs = [*_episodes(tests, report, mark, summary, arm), _paragraph(verdict, report, arm)]
    pytest.fail("\n".join([f"seed {tests.seed}", *paragraphs]), pytrace=False)


def _experiment(
    tests: MarkedTests,
    agent: Callable[..., object],
    prompts: Sequence[Any],
    named: Mapping[str, Any],
    mark: Mark,
) -> Experiment:
    """The agent with these faults, and without them before and after."""
    own = named["checks"]
    checks = list(own) if isinstance(own, list | tuple) else [own]
    return Experiment(
        title="assert_survives",
        subject=agent,
        wiring=dict(tests.wiring_data),
        prompts=list(prompts),
        repeats=named["repeats"],
        seed=tests.seed,
        settings={"prompt_limit": 1},
        faults=json.loads(mark.faults),
        checks=[_COMPLETES, *checks],
        steady_state=list(ANSWERS),  # an oracle may ask for the answer under the faults
    )


def _verdict(report: ExperimentReport, mark: Mark, name: str) -> tuple[TestVerdict, Summary]:
    """The verdict of the arm as of a marked test, without its checks; and the arm's summary."""
    saved = report.result.saved
    [arm] = [each for each in report.result.plan.arms if each.name == name]
    events = [event for run_id in saved.run_ids(arm) for event in read_run(saved.logs, run_id)]
    summary = summarise(events)
    return judge_test(replace(mark, checks=()), summary, events), summary


def _episodes(
    tests: MarkedTests, report: ExperimentReport, mark: Mark, summary: Summary, arm: str
) -> Iterator[str]:
    """A paragraph for each episode of the arm that the agent did not survive."""
    grave = grave_findings(mark, summary)
    for episode in report.arms[arm].episodes:
        reasons = [
            f"{each.rule} ({each.severity}): {each.text}" for each in grave if each.episode == episode.episode
        ]
        if OUTCOMES[episode.outcome].tone in BAD_TONES:
            reasons.append(f"{episode.outcome}: {episode.why}".removesuffix(": "))
        if reasons:
            lines = "".join(f"\n    {line}" for line in [*reasons, _why(tests, report, episode)])
            yield f"failed: {episode.prompt!r}{lines}"


def _why(tests: MarkedTests, report: ExperimentReport, episode: EpisodeView) -> str:
    saved = report.result.saved
    return next_command.why_line(
        saved.experiment_id, episode.episode, tests.running()[1].logs, arm=episode.arm
    )


def _paragraph(verdict: TestVerdict, report: ExperimentReport, arm: str) -> str:
    """The verdict in words."""
    kind = "unknown" if "unknown" in (verdict.kind, report.verdict) else "failed"
    reasons = list(verdict.reasons) if verdict.kind == "unknown" and arm == METHOD else []
    if not report.passed:
        reasons.append(f"{report.verdict}: {report.because}")
    lines = "".join(f"\n    {line}" for line in [*reasons, *map(fault_line, verdict.faults)])
    return f"{kind}: the experiment {report.result.saved.experiment_id}{lines}"
