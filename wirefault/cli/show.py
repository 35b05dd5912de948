"""``wirefault show``: an episode of a recorded run as a timeline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wirefault.cli.help import Command, option
from wirefault.cli.options import (
    environ_below,
    logs_in,
    recorded_json_option,
    recorded_out_option,
    verbose_option,
)
from wirefault.cli.recorded import print_object, recording_named, say_evidence
from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from wirefault.experiments.recorded import RecordedArm, Recording
    from wirefault.history.judged_events import Finding

_QUESTION = re.compile(r"q\d+(\.r\d)?")
_EVENT = re.compile(r"(?P<run>[^/]+)/(?P<event>\w+-\d+:\d+)")


@click.command("show", cls=Command, examples=("wirefault show latest", "wirefault show latest 3 --full"))
@click.argument("run")
@click.argument("episode", required=False)
@option("--arm", help="Show this arm of an experiment.  [default: the only one with faults]")
@recorded_out_option
@option("--full", is_flag=True, help="Wrap long texts instead of cutting them.")
@recorded_json_option
@verbose_option
def show_command(
    run: str,
    episode: str | None,
    arm: str | None,
    out: Path | None,
    full: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Show an episode as a timeline: requests, faults, replies before and after, side effects, claim.

    EPISODE is its key, the number that the run printed, or else its place from 1; without one all episodes
    are listed. A question can come alone: wirefault show q07 is q07 of the newest audit, but for dry runs.
    So can an event as findings name their evidence, RUN/gateway-0:17: it shows that event's episode.
    """
    from wirefault.audit.options import is_audit
    from wirefault.audit.result import findings_if_audit
    from wirefault.experiments.evidence import owner_of
    from wirefault.experiments.index import early_word, listed_run
    from wirefault.judging.ending import CAN_RESUME, run_word
    from wirefault.judging.judge import judge_episode
    from wirefault.report.next_command import print_resume
    from wirefault.report.page_links import recorded_link
    from wirefault.report.terminal import plain_console
    from wirefault.report.timeline import timeline_as_json
    from wirefault.report.timeline_text import print_timeline

    if episode is None and _QUESTION.fullmatch(run):
        from wirefault.audit.options import latest_audit

        audit = latest_audit(logs_in(environ_below(out)))
        if audit is None:
            raise InputError(f"{run}: no audit there: name the run, too: wirefault show RUN {run}")
        run, episode = audit, run
    if (named := _EVENT.fullmatch(run)) and episode is None:
        recording = recording_named(owner_of(logs_in(environ_below(out)), named["run"]) or named["run"], out)
        recorded, episode = recording.of_event(named["run"], named["event"])
    else:
        recording = recording_named(run, out)
        recorded = recording.arm(arm)
    evidence = recording.evidence
    if episode is None:
        _list_episodes(recorded, _findings_of(recording, recorded), as_json=as_json)
        saved, word = recording.experiment, early_word(recorded.logs, recording.id)
        if saved is None or (saved.plan.is_plain_run and not is_audit(saved)):
            word = word or run_word(recorded.summary)
        elif not word and is_audit(saved):
            word = listed_run(saved.logs, recording.id, is_saved=True).verdict
        if word:
            click.echo(f"verdict: {word}", err=as_json)
        if saved is not None and word in CAN_RESUME:
            print_resume(plain_console(stderr=as_json), saved)
        say_evidence(evidence, verbose=verbose, err=as_json)
        return
    key = recorded.episode_named(episode)
    try:
        judged = judge_episode(recorded.run_of(key), key, recorded.control.get(key))
    except ValueError as error:
        raise InputError(str(error)) from None
    if (audited := findings_if_audit(recording.experiment)) is not None:  # the clean runs are its control
        judged = replace(judged, findings=audited.get(key, judged.findings))
    if as_json:
        print_object({**timeline_as_json(judged), "evidence": evidence.as_json()})
    else:
        print_timeline(plain_console(), judged, full=full)
        requests = {id for request in judged.trace.requests for id in request.ids}
        proofs = [id for finding in judged.findings for id in finding.evidence if id in requests]
        if link := recorded_link(recording, recorded, key, proofs[0] if proofs else ""):
            click.echo(f"page: {link}")
        say_evidence(evidence, verbose=verbose)


def _findings_of(recording: Recording, recorded: RecordedArm) -> list[Finding]:
    """Return the findings of all episodes; in an audit, of the runs with a fault."""
    from wirefault.audit.result import findings_if_audit

    audited = findings_if_audit(recording.experiment)
    return recorded.summary.findings if audited is None else list(chain(*audited.values()))


def _list_episodes(recorded: RecordedArm, findings: Sequence[Finding], *, as_json: bool) -> None:
    from rich.text import Text

    from wirefault.judging.findings.finding import worst_finding, worst_of
    from wirefault.report.console import episode_line
    from wirefault.report.tables import one_line
    from wirefault.report.terminal import line_width, plain_console

    judged = {judgement.episode: judgement for judgement in recorded.summary.episodes}
    numbered = {number: judged[key] for number, key in recorded.numbered_episodes.items() if key in judged}
    if as_json:
        print_object(
            [
                {
                    "episode": row.episode,
                    "prompt": row.prompt,
                    "outcome": row.outcome,
                    "worst": worst_finding(each for each in findings if each.episode == row.episode),
                }
                for row in numbered.values()
            ]
        )
        return
    console = plain_console()
    total = max(numbered, default=0)
    for number, row in numbered.items():
        console.print(episode_line(row, number, total, line_width(console)))
    if worst := worst_of(findings):
        text = f"worst finding: {worst_finding([worst])}: {worst.text} (episode {worst.episode})"
        console.print(Text(one_line(text)))
