"""Show results on the console: of a run, an experiment and a tournament, and where their pages are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from wirefault.cli.recorded import print_object
from wirefault.core.errors import InputError, UserError
from wirefault.experiments.arms import ArmHistory
from wirefault.experiments.index import early_word
from wirefault.experiments.recorded import (
    RecordedArm,
    Recording,
    recording_of,
    stored_recording,
)
from wirefault.experiments.run_experiment import ExperimentResult, obstacles_in
from wirefault.experiments.run_tournament import TournamentResult
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import Check
from wirefault.history.events import RunFinished
from wirefault.history.judged_events import Finding
from wirefault.history.logs import strip_control
from wirefault.judging.ending import CAN_RESUME
from wirefault.judging.summary import summary_of
from wirefault.lab.process import print_to_stderr
from wirefault.report.experiment import arm_lines, print_effects, print_verdict
from wirefault.report.next_command import print_resume, print_why, why_line, with_folder, worst_episode
from wirefault.report.replies import print_replies
from wirefault.report.resilience import print_resilience
from wirefault.report.summary import findings_block, print_summary
from wirefault.report.surface import print_surface
from wirefault.report.tables import one_line
from wirefault.report.tournament import print_tournament


def show_result(
    console: Console, result: ExperimentResult, *, page: bool = False, verbose: bool = False
) -> None:
    """Show arms, effects, verdict and folder; without a verdict, how to resume it.

    The harmful findings of an experiment that held come first. ``page``: write its page, too. ``verbose``:
    all rows of all tables, also those that show nothing by themselves.
    """
    for line in result.harm_beside:
        console.print(Text(one_line(line), style="bold red"), soft_wrap=True)
    for arm_line in arm_lines(result.arms, verbose=verbose):
        console.print(arm_line, soft_wrap=True)
    if result.plan.is_plain_run:
        history = result.saved.history_of(result.plan.arms[0])
        if history.identified:
            show_run(console, result.saved, history, verbose=verbose)
    else:
        print_effects(console, result.effects, verbose=verbose)
        print_resilience(console, result.arms, verbose=verbose)
        print_surface(console, result)
        if result.plan.experiment.replies:
            print_replies(console, recording_of(result.saved), verbose=verbose)
        print_verdict(console, result, obstacles_in(result), verbose=verbose)
    if result.early:
        from wirefault.audit.result import worst_so_far

        worst = worst_so_far(recording_of(result.saved)) or "none"
        console.print(Text(f"{result.early}; worst finding so far: {worst}", style="bold magenta"))
    if result.can_be_resumed:
        print_resume(console, result.saved)
    console.print(f"experiment: {result.saved.folder}", soft_wrap=True)
    if page and result.arms:
        show_page(result.saved)
    decided_by = result.judged.decided_by if result.judged else None
    if decided_by is not None:
        _show_failed_arm(console, result.saved, decided_by, result.findings)


_MAX_OTHERS = 8


def _findings_elsewhere(by_arm: Mapping[str, Sequence[Finding]], arm: str) -> Iterator[str]:
    """Yield the gravest finding of each other arm that has more than notes."""
    others = {name: of_arm[0] for name, of_arm in by_arm.items() if name != arm and of_arm}
    lines = [
        f"{each.severity} in {name}: {each.headline or each.text}"
        for name, each in others.items()
        if each.severity != "note"
    ]
    yield from lines[:_MAX_OTHERS]
    if len(lines) > _MAX_OTHERS:
        yield f"findings in {len(lines) - _MAX_OTHERS} more arms: see --json"


def _show_failed_arm(
    console: Console, saved: SavedExperiment, check: Check, by_arm: Mapping[str, Sequence[Finding]]
) -> None:
    """Show the findings of the check's arm, the gravest of each other arm, and how to see the episode that
    explains the check best.
    """
    recording = recording_of(saved)
    arm = recording.arms.get(check.arm)
    if arm is None:  # a statement about the whole experiment, or an arm that could not run
        return
    try:
        summary = arm.summary
    except InputError:  # the verdict says that it cannot be read
        return
    if summary.findings:
        console.print(f"\nin {check.arm}:", markup=False)
        console.print(findings_block(summary.findings, summary.run_id, saved.logs))
    for line in _findings_elsewhere(by_arm, check.arm):
        console.print(Text(strip_control(line)), soft_wrap=True)
    if not (key := worst_episode(summary.episodes, summary.findings, check.episodes)):
        key = next((episode.episode for episode in summary.episodes if episode.outcome != "success"), "")
    for episode in summary.episodes:
        if episode.episode == key:
            because = f", {one_line(episode.why)}" if episode.why else ""
            console.print(Text(strip_control(f"{key} in {check.arm}: {episode.outcome}{because}")))
            name = "" if arm is recording.default_arm else check.arm
            line = why_line(saved.experiment_id, key, saved.logs, arm=name)
            console.print(Text(strip_control(line)), soft_wrap=True)


def show_run(
    console: Console,
    saved: SavedExperiment,
    history: ArmHistory,
    as_json: bool = False,
    *,
    shows_why: bool = True,
    verbose: bool = False,
) -> None:
    """Show the summary of all runs of an experiment without a hypothesis.

    ``shows_why``: with the line about the worst episode, which must come last.
    """
    summary, seen_in = summary_of(history.judged()), ""
    if (findings := _counted_by_audit(saved)) is not None:
        summary, seen_in = replace(summary, findings=findings), "question"
    again = f"wirefault run --again {saved.experiment_id}"
    print_summary(console, summary, again, logs=saved.logs, seen_in=seen_in, verbose=verbose)
    if shows_why:
        print_why(console, summary, saved.logs)
    if as_json:
        print_object(summary.as_json())


def _counted_by_audit(saved: SavedExperiment) -> list[Finding] | None:
    """Return an audit's findings, since its clean runs are its control; None if its runs' own count."""
    from wirefault.audit.options import is_audit
    from wirefault.audit.result import NoCleanRuns, answer_findings

    if not is_audit(saved):
        return None
    try:
        return answer_findings(saved)
    except NoCleanRuns:
        return None


def show_tournament(
    console: Console, result: TournamentResult, out: Path | None, *, page: bool = False
) -> None:
    """Show how the arms compare, and how to resume. ``page``: write its page, too."""
    print_tournament(console, result)
    tournament = result.tournament
    if any(each.can_be_resumed for each in result.results):
        command = with_folder(f"wirefault run --resume {tournament.id}", tournament.logs)
        console.print(f"to resume it: {command}", soft_wrap=True)
    console.print(f"tournament: wirefault report {tournament.id}", soft_wrap=True)
    if page:
        from wirefault.report.page.tournament import tournament_page_line

        print_to_stderr(tournament_page_line(result))


def show_page(saved: SavedExperiment, recording: Recording | None = None) -> None:
    """Write the page of what was recorded, and print its path. ``recording``: what was read of it already.

    Where OpenTelemetry's variables name a collector, its spans go there; a failure to send them is a warning.
    """
    from wirefault.report.page.write import page_line  # the template engine is slow to import
    from wirefault.report.telemetry.export import export, is_wanted

    recording = recording or stored_recording(saved)
    print_to_stderr(page_line(saved.logs, saved.experiment_id, saved.plan.configuration.environ, recording))
    if is_wanted(os.environ):
        try:
            print_to_stderr(f"spans exported: {export(recording or recording_of(saved))}")
        except UserError as error:
            print_to_stderr(f"warning: no spans exported: {error}")


def show_resume(console: Console, saved: SavedExperiment) -> None:
    """Print the command that resumes it, if it was interrupted or ended early."""
    if early_word(saved.logs, saved.experiment_id) in CAN_RESUME:
        print_resume(console, saved)


def show_why(console: Console, arm: RecordedArm) -> None:
    """Print the command for the worst episode, if the run has its end; the run's process told the rest."""
    try:
        summary = arm.summary
        if any(isinstance(event, RunFinished) for event in arm.events):
            print_why(console, summary, arm.logs)
    except InputError:
        return
