"""``wirefault runs``: look at recorded runs and experiments, verify, prune and bundle them.

Commands import only what they need, so that ``verify`` of a run starts fast.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Group, option
from wirefault.cli.options import environ_below, logs_in, recorded_out_option
from wirefault.core.errors import DEVIATED, UNKNOWN, InputError
from wirefault.experiments.index import latest_id, lone_runs, run_ids_of, saved_ids, saved_status, stored_runs

if TYPE_CHECKING:
    from wirefault.experiments.evidence import Evidence
    from wirefault.experiments.recorded import RecordedArm, Recording
    from wirefault.experiments.run_experiment import ExperimentResult
    from wirefault.judging.judge import ByControl
    from wirefault.judging.summary import Summary
    from wirefault.report.page.parts import PageContent

_CODES = {"not worse": 0, "worse": DEVIATED, "unknown": UNKNOWN}
_QUESTION = re.compile(r"q\d+(\.r\d)?")
_json = option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _recording(name: str, out: Path | None, files: Sequence[Path] = ()) -> Recording:
    """Open a recording. ``files``: the experiment's file, whose functions then run."""
    from wirefault.experiments.recorded import open_recording, recording_of

    environ = environ_below(out)
    if files and name in saved_ids(logs_in(environ)):
        from wirefault.cli.running import saved_experiment

        return recording_of(saved_experiment(name, out, files))
    return open_recording(logs_in(environ), name, environ)


@click.group("runs", cls=Group)
def runs_command() -> None:
    """Look at recorded runs and experiments; verify, prune and bundle them.

    RUN is the id of a run or an experiment; latest is the newest of both.
    """


@runs_command.command("list", examples=("wirefault runs list", "wirefault list --out ../other-lab"))
@recorded_out_option
def list_command(out: Path | None) -> None:
    """List the recorded runs and experiments with their verdicts, the newest last."""
    from wirefault.experiments.evidence import AlteredError, Evidence, evidence_of
    from wirefault.report.plain_table import table_lines, width_of

    logs = logs_in(environ_below(out))
    rows = [(name, *saved_status(logs, name)) for name in saved_ids(logs)]
    rows += [(name, "none", "prompts sent to a running lab") for name in lone_runs(logs)]
    if not rows:
        click.echo(f"{logs}: no runs or experiments there")
        return
    states = {}
    for name, _, _ in rows:
        try:
            states[name] = evidence_of(logs, name)
        except OSError as error:
            states[name] = Evidence("altered", (str(error),))
    lines = [
        (name, "unknown" if states[name].alterations else verdict, states[name].state, title)
        for name, verdict, title in sorted(rows)
    ]
    for line in table_lines(("run", "verdict", "evidence", "title"), lines, width_of(sys.stdout)):
        click.echo(line)
    altered = [place for name, *_ in lines for place in states[name].alterations]
    if altered:
        raise AlteredError(altered)


@runs_command.command("show", examples=("wirefault show latest", "wirefault show latest 3 --full"))
@click.argument("run")
@click.argument("episode", required=False)
@option("--arm", help="Show this arm of an experiment.  [default: the only one with faults]")
@recorded_out_option
@option("--full", is_flag=True, help="Wrap long texts instead of cutting them.")
@_json
def show_command(
    run: str, episode: str | None, arm: str | None, out: Path | None, full: bool, as_json: bool
) -> None:
    """Show an episode as a timeline: requests, faults, replies before and after, side effects, claim.

    EPISODE is its key, the number that the run printed, or else its place from 1; without one all episodes
    are listed. A question of an audit can come alone: wirefault show q07 is wirefault show latest q07.
    """
    from wirefault.report.page_links import recorded_link
    from wirefault.report.terminal import plain_console
    from wirefault.report.timeline import timeline_of
    from wirefault.report.timeline_text import print_timeline

    if episode is None and _QUESTION.fullmatch(run):
        run, episode = "latest", run
    recording = _recording(run, out)
    recorded, evidence = recording.arm(arm), recording.evidence
    if episode is None:
        _list_episodes(recorded, as_json=as_json)
        click.echo(f"evidence: {evidence.text}", err=as_json)
        return
    key = recorded.episode_named(episode)
    try:
        timeline = timeline_of(recorded.run_of(key), key, recorded.control.get(key))
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        _print_object({**timeline.as_json(), "evidence": evidence.as_json()})
    else:
        print_timeline(plain_console(), timeline, full=full)
        requests = {id for line in timeline.lines for id in line.ids}
        proofs = [id for finding in timeline.findings for id in finding.evidence if id in requests]
        if link := recorded_link(recording, recorded, key, proofs[0] if proofs else ""):
            click.echo(f"page: {link}")
        click.echo(f"evidence: {evidence.text}")


def _list_episodes(recorded: RecordedArm, *, as_json: bool) -> None:
    from wirefault.report.console import episode_line
    from wirefault.report.terminal import line_width, plain_console

    judged = {judgement.episode: judgement for judgement in recorded.summary.episodes}
    numbered = {number: judged[key] for number, key in recorded.numbered_episodes.items() if key in judged}
    if as_json:
        _print_object(
            [
                {"episode": row.episode, "prompt": row.prompt, "outcome": row.outcome}
                for row in numbered.values()
            ]
        )
        return
    console = plain_console()
    total = max(numbered, default=0)
    for number, row in numbered.items():
        console.print(episode_line(row, number, total, line_width(console)))


@runs_command.command(
    "compare",
    examples=(
        "wirefault compare 20260101-120000-a1b2c3 latest",
        "wirefault compare latest latest --arm method",
        "wirefault compare --baseline wirefault.baseline.json latest --fail-on 'degradation > 5 %'",
    ),
)
@click.argument("first")
@click.argument("second", required=False)
@option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare one recording with this accepted one (wirefault baseline accept).",
)
@option(
    "--fail-on",
    metavar="CONDITIONS",
    help="Exit with 1 if one of these holds; degradation > N %, new [harmful|risky|note] finding."
    "  [default with --baseline: degradation > 0 %, new finding]",
)
@option("--arm", "arms", multiple=True, help="Compare only this arm. Repeatable.")
@recorded_out_option
@_json
@option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write both side by side as one page."
)
def compare_command(
    first: str,
    second: str | None,
    baseline: Path | None,
    fail_on: str | None,
    arms: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    html: Path | None,
) -> None:
    """Compare two experiments or runs: success, measures, findings, settings. Runs nothing.

    The exit code is 1 if the second succeeds less often, beyond the 90 % interval of the difference, and 2 if
    that is unknown. With --fail-on, or with --baseline FILE and one RUN, its conditions decide instead.
    """
    from wirefault.experiments.baseline import gate, read_baseline, read_fail_on
    from wirefault.experiments.compare import compare, side_of
    from wirefault.report.comparison import comparison_json, print_comparison, print_gate
    from wirefault.report.known_findings import known_findings
    from wirefault.report.terminal import plain_console

    if (baseline is None) == (second is None):
        raise InputError("compare needs two recordings, or --baseline FILE and one")
    conditions = read_fail_on(fail_on)
    accepted = read_baseline(baseline) if baseline else None
    recordings = {"second": _recording(second or first, out)}
    if accepted is None:
        recordings = {"first": _recording(first, out), **recordings}
    sides = [side_of(each, arms) for each in recordings.values()]
    compared = compare(accepted.side if accepted else sides[0], sides[-1], arms)
    gated = None
    if accepted is not None or fail_on is not None:
        findings = [known_findings(each, arms) for each in recordings.values()]
        gated = gate(compared, conditions, accepted.findings if accepted else findings[0], findings[-1])
    if html is not None and accepted is not None:
        raise InputError("--html needs two recordings, since a baseline has no histories")
    figures: Mapping[str, Any] = {}
    if accepted is None and (html is not None or as_json):
        from wirefault.report.page.comparisons import comparison_content
        from wirefault.report.page.write import write_page_to

        content = comparison_content(recordings["first"], recordings["second"], compared)
        figures = {"figures": content.figures}
        if html is not None:
            write_page_to(content, html)
            click.echo(f"page: {html}", err=True)
    if as_json:
        evidence = {side: recording.evidence.as_json() for side, recording in recordings.items()}
        _print_object({**comparison_json(compared, gated, accepted), **figures, "evidence": evidence})
    else:
        print_comparison(plain_console(), compared)
        for side, recording in recordings.items():
            click.echo(f"evidence of the {side}: {recording.evidence.text}")
        if gated is not None:
            print_gate(plain_console(), gated, accepted.age_text(datetime.now(UTC)) if accepted else "")
    sys.exit(
        {"passed": 0, "failed": DEVIATED, "unknown": UNKNOWN}[gated.word]
        if gated
        else _CODES[compared.change]
    )


@runs_command.command(
    "report",
    examples=(
        "wirefault report latest",
        "wirefault report latest --html page.html",
        "wirefault report latest --junit verdict.xml",
        "wirefault report latest --otlp http://127.0.0.1:4318",
    ),
)
@click.argument("run")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@recorded_out_option
@_json
@option("--junit", type=click.Path(allow_dash=True), metavar="FILE|-", help="Write the verdict as JUnit XML.")
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one page with everything.")
@option(
    "--md",
    type=click.Path(allow_dash=True),
    metavar="FILE|-",
    help="Write the page's short form as Markdown.",
)
@option("--otlp", metavar="URL", help="Send its spans to this OpenTelemetry collector, over OTLP/HTTP.")
def report_command(
    run: str,
    file: Path | None,
    out: Path | None,
    as_json: bool,
    junit: str | None,
    html: Path | None,
    md: str | None,
    otlp: str | None,
) -> None:
    """Show an experiment's verdict, computed from its histories. Runs nothing.

    Functions of a plan that this user did not sign are called only if FILE, the experiment's file, is named.
    """
    if (code := _report_tournament(run, out, as_json, junit, html, md)) is not None:
        sys.exit(code)
    name = _resolved(run, out)
    logs = logs_in(environ_below(out))
    files = [file] if file else []
    # one recording for all outputs, since it remembers what its histories show
    recording = cache(lambda: _recording(name, out, files))
    judged = cache(lambda: _judged(name, out, as_json, recording))
    content = cache(lambda: _page_content(recording(), judged))
    if html is not None or md is not None:
        from wirefault.report.page.markdown import markdown
        from wirefault.report.page.write import write_page_to

        if html is not None:
            write_page_to(content(), html)
            click.echo(f"page: {html}", err=True)
        if md is not None:
            _write_output("--md", md, markdown(content(), recording()))
    if otlp is not None:
        from wirefault.report.telemetry.export import export

        click.echo(f"spans exported: {export(recording(), otlp)}", err=True)

    def figures() -> Mapping[str, Any]:
        """Return the part of the JSON that the page shows."""
        from wirefault.report.page.write import page_json

        return page_json(recording(), content)

    if junit is None and name in saved_ids(logs) and _show_search(name, out, as_json, figures):
        return
    result = judged() if name in saved_ids(logs) else None
    if junit is not None:
        from wirefault.report.experiment import junit as junit_text

        if result is None:
            raise InputError(f"--junit: {name} is a run without a hypothesis")
        _write_output("--junit", junit, junit_text([result]))
    # a document on standard output is alone there
    with redirect_stdout(StringIO()) if "-" in (junit, md) else nullcontext():
        if result:
            code = _show_report(result, out, as_json, figures)
        else:
            code = _verify_run(name, logs, "", as_json, figures=figures)
    sys.exit(code)


def _report_tournament(
    name: str, out: Path | None, as_json: bool, junit_file: str | None, html: Path | None, md: str | None
) -> int | None:
    """Show the tournament of that id; None if it is not one."""
    environ = environ_below(out)
    logs = logs_in(environ)
    if f"{name}.1" not in saved_ids(logs):
        return None
    from wirefault.cli.running import show_tournament
    from wirefault.experiments.run_tournament import load_tournament, result_of
    from wirefault.report.experiment import junit
    from wirefault.report.page.markdown import tournament_markdown
    from wirefault.report.page.tournament import tournament_content
    from wirefault.report.page.write import write_page_to
    from wirefault.report.terminal import plain_console

    result = result_of(load_tournament(logs, name, environ))
    if html is not None:
        write_page_to(tournament_content(result), html)
        click.echo(f"page: {html}", err=True)
    if junit_file is not None:
        _write_output("--junit", junit_file, junit(list(result.results)))
    if md is not None:
        _write_output("--md", md, tournament_markdown(tournament_content(result)))
    is_silent = "-" in (junit_file, md)
    if as_json and not is_silent:
        _print_object(result.as_json())
    elif not is_silent:
        show_tournament(plain_console(), result, out)
    codes = [each.code for each in result.results]
    return DEVIATED if DEVIATED in codes else max(codes)


def _write_output(option_name: str, file: str, text: str) -> None:
    """Write to the file, or to standard output for ``-``. Raises ``InputError``."""
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option_name} {file}: {error.strerror}") from None


def _judged(
    name: str, out: Path | None, as_json: bool, recording: Callable[[], Recording]
) -> ExperimentResult:
    """Judge the recorded experiment again; exit if one of its files was altered."""
    from wirefault.experiments.run_experiment import judged_again

    _unaltered(logs_in(environ_below(out)), name, as_json)
    saved = recording().experiment
    assert saved is not None
    return judged_again(saved)


def _show_search(
    name: str, out: Path | None, as_json: bool, figures: Callable[[], Mapping[str, Any]]
) -> bool:
    """Show the answer of a search; False for other experiments."""
    from wirefault.cli.running import saved_experiment
    from wirefault.experiments.search.run_search import answer_of
    from wirefault.report.search import search_lines

    _unaltered(logs_in(environ_below(out)), name, as_json)
    saved = saved_experiment(name, out)
    if not saved.plan.search:
        return False
    result = answer_of(saved)
    if as_json:
        _print_object({**result.as_json(), **figures(), "evidence": saved.evidence.as_json()})
    else:
        for line in (saved.plan.experiment.title, *search_lines(result), f"evidence: {saved.evidence.text}"):
            click.echo(line)
    sys.exit(result.code)


def _page_content(recording: Recording, judged: Callable[[], ExperimentResult]) -> PageContent:
    """Describe the page; the template engine is slow to import."""
    from wirefault.report.page.write import page_content

    return page_content(recording, lambda _: judged())


def _show_report(
    result: ExperimentResult, out: Path | None, as_json: bool, figures: Callable[[], Mapping[str, Any]] = dict
) -> int:
    from wirefault.cli.running import show_verdict
    from wirefault.report.experiment import arm_line
    from wirefault.report.terminal import plain_console

    evidence = result.saved.evidence
    if as_json:
        _print_object({**result.as_json(), **figures(), "evidence": evidence.as_json()})
    else:
        console = plain_console()
        console.print(result.plan.experiment.title, style="bold", markup=False)
        for arm in result.arms:
            console.print(arm_line(arm))
        show_verdict(console, result, out)
        click.echo(f"evidence: {evidence.text}")
    return result.code


@runs_command.command(
    "trend",
    examples=("wirefault runs trend", "wirefault runs trend --tag nightly --html trend.html"),
)
@option("--title", default="*", metavar="PATTERN", help="Show experiments with this title.  [default: all]")
@option("--tag", default="", help="Show recordings with this tag (run --tag).")
@option("--last", type=click.IntRange(min=1), default=30, show_default=True, help="So many of each.")
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one page over all of them.")
@recorded_out_option
@_json
def trend_command(
    title: str, tag: str, last: int, html: Path | None, out: Path | None, as_json: bool
) -> None:
    """Show how the statements of experiments fared over time. Runs nothing."""
    from wirefault.experiments.trend import read_trends
    from wirefault.report.page.trends import trend_content
    from wirefault.report.page.write import write_page_to
    from wirefault.report.terminal import plain_console
    from wirefault.report.trends import print_trends, trends_json

    environ = environ_below(out)
    trends = read_trends(logs_in(environ), environ, title=title, tag=tag, last=last)
    if not trends:
        raise InputError(f"{logs_in(environ)}: no experiment with a verdict has this title or tag")
    if html is not None:
        selection = " ".join(filter(None, (title if title != "*" else "", f"tag {tag}" if tag else "")))
        write_page_to(trend_content(trends, selection or "all experiments"), html)
        click.echo(f"page: {html}", err=True)
    if as_json:
        _print_object(trends_json(trends))
    else:
        print_trends(plain_console(), trends)


@runs_command.command(
    "verify", examples=("wirefault runs verify latest", "wirefault runs verify latest --event gateway-0:17")
)
@click.argument("run")
@recorded_out_option
@option(
    "--prompts",
    metavar="FILE",
    default="",
    help="Use this path of the run's prompts file in the last line, if it has moved.",
)
@option("--event", metavar="ID", default="", help="Print only this event, as recorded.")
@_json
def verify_command(run: str, out: Path | None, prompts: str, event: str, as_json: bool) -> None:
    """Check that a run's history is unaltered, and score it again.

    Findings name the events that prove them: gateway-0:17 is line 17 of gateway-0.jsonl. The exit code is 2
    if a history was altered (then nothing is scored), or if an outcome differs from the recorded one;
    otherwise it is the verdict's.
    """
    logs, name = logs_in(environ_below(out)), _resolved(run, out)
    runs = run_ids_of(logs, name)
    if name not in saved_ids(logs) or runs == [name] or event:
        if event and runs != [name]:
            raise InputError(f"--event: {name} is an experiment; name one of its runs: {', '.join(runs)}")
        sys.exit(_verify_run(name, logs, prompts, as_json, event))
    _unaltered(logs, name, as_json)
    different = [f"{run_id}: {text}" for run_id in runs for text in _differences(run_id, logs)]
    code = _show_report(_judged(name, out, as_json, lambda: _recording(name, out)), out, as_json)
    for line in different:
        click.echo(f"differs from the recorded outcome: {line}", err=True)
    sys.exit(UNKNOWN if different else code)


def _resolved(run: str, out: Path | None) -> str:
    logs = logs_in(environ_below(out))
    return latest_id(logs) if run == "latest" else run


def _verify_run(
    run_id: str,
    logs: Path,
    prompts: str,
    as_json: bool,
    event: str = "",
    figures: Callable[[], Mapping[str, Any]] = dict,
) -> int:
    """Score a run again, show it and return the exit code."""
    from wirefault.history.reader import read_history
    from wirefault.judging.summary import summarise

    evidence = _unaltered(logs, run_id, as_json)
    try:
        history = read_history(logs, run_id)
        if event:
            click.echo(history.line(event).decode("utf-8", "replace"))
            click.echo(f"evidence: {evidence.text}", err=True)
            return 0
        control: Mapping[str, ByControl] = {}
        if any(run_id.startswith(f"{name}-") for name in saved_ids(logs)):
            from wirefault.experiments.recorded import control_of_run  # slow to import, and often not needed

            control = control_of_run(logs, run_id, {**os.environ, "LOGS_DIR": str(logs)})
        summary = summarise(history.events(), torn=history.torn, control=control)
    except ValueError as error:
        raise InputError(str(error)) from None
    summary = replace(summary, remarks=[*history.integrity.remarks(), *summary.remarks])
    if as_json:
        checked = {"seal": history.integrity.seal, "altered": [], "evidence": evidence.as_json()}
        _print_object({**summary.as_json(), **checked, **figures()})
    else:
        _show_summary(summary, prompts, logs)
        click.echo(f"evidence: {evidence.text}")
    return UNKNOWN if summary.differences else 0


def _differences(run_id: str, logs: Path) -> list[str]:
    """Return the outcomes that differ from the recorded ones."""
    from wirefault.history.reader import read_history
    from wirefault.judging.summary import summarise

    try:
        history = read_history(logs, run_id)
        return list(map(str, summarise(history.events(), torn=history.torn).differences))
    except ValueError as error:
        raise InputError(str(error)) from None


def _unaltered(logs: Path, name: str, as_json: bool) -> Evidence:
    """Return the state of the files. Exit if one was altered: nothing is scored from it."""
    from wirefault.experiments.evidence import AlteredError, evidence_of

    evidence = evidence_of(logs, name)
    try:
        evidence.require_unaltered()
    except AlteredError as error:
        click.echo(f"{error}\nnot scored: {name} was altered", err=True)
        if as_json:
            _print_object({"run_id": name, "altered": error.places, "evidence": evidence.as_json()})
        sys.exit(error.code)
    return evidence


def _show_summary(summary: Summary, prompts: str, logs: Path) -> None:
    from wirefault.history.reader import LIVE
    from wirefault.report.console import episode_line
    from wirefault.report.reproduce import summary_command
    from wirefault.report.summary import print_summary
    from wirefault.report.terminal import line_width, plain_console

    console = plain_console()
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), line_width(console)))
    if summary.run_id.startswith(LIVE):  # commands do not repeat traffic that came from other programs
        print_summary(console, summary, logs=logs)
        return
    print_summary(console, summary, summary_command(summary, prompts), logs=logs)


@runs_command.command(
    "prune",
    examples=("wirefault runs prune --keep 20 --dry-run", "wirefault runs prune --keep 20"),
)
@option(
    "--keep", type=click.IntRange(0), required=True, help="Keep this many of the newest runs and experiments."
)
@option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@recorded_out_option
def prune_command(keep: int, dry_run: bool, out: Path | None) -> None:
    """Remove old runs and experiments with their charts, and print their sizes.

    Anything written to within the last minute is kept: it may be in progress.
    """
    stored = list(stored_runs(logs_in(environ_below(out))))
    removed = [item for item in stored[: max(len(stored) - keep, 0)] if not item.is_active]
    freed = 0
    for item in removed:
        size = item.size
        freed += size
        click.echo(f"{'would remove' if dry_run else 'removed'} {item.name}  {_shown_size(size)}")
        for path in item.paths if not dry_run else ():
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise InputError(f"{error.filename or path}: cannot remove: {error.strerror}") from None
    others = [item for item in stored if item not in removed]
    sizes = _shown_size(freed), _shown_size(sum(item.size for item in others))
    click.echo(
        f"{len(removed)} {'to remove' if dry_run else 'removed'}, {sizes[0]}; {len(others)} kept, {sizes[1]}"
    )


@runs_command.command(
    "archive",
    examples=("wirefault runs archive --keep 20 --dry-run", "wirefault runs archive --keep 20"),
)
@option(
    "--keep", type=click.IntRange(0), required=True, help="Keep this many of the newest runs and experiments."
)
@option("--dry-run", is_flag=True, help="Show what would be archived; move nothing.")
@recorded_out_option
def archive_command(keep: int, dry_run: bool, out: Path | None) -> None:
    """Move old runs and experiments into logs/archive.zip, which wirefault memory still reads.

    Their charts and pages are removed. Anything written to within the last minute is kept. Unpacked, the
    folder of each run or experiment is a folder of logs.
    """
    from wirefault.experiments.archive import ARCHIVE, archive_runs

    logs = logs_in(environ_below(out))
    stored = list(stored_runs(logs))
    moved = [item for item in stored[: max(len(stored) - keep, 0)] if not item.is_active]
    sizes = {item.name: item.size for item in moved}
    if moved and not dry_run:
        archive_runs(logs, moved)
    for name, size in sizes.items():
        click.echo(f"{'would archive' if dry_run else 'archived'} {name}  {_shown_size(size)}")
    archive = logs / ARCHIVE
    size_text = f", {_shown_size(archive.stat().st_size)}" if archive.exists() else ""
    click.echo(f"{archive}: {len(moved)} {'to archive' if dry_run else 'archived'}{size_text}")


def _shown_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


@runs_command.command(
    "bundle", examples=("wirefault runs bundle latest", "wirefault runs bundle latest for-a-colleague.tar.gz")
)
@click.argument("run")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@recorded_out_option
def bundle_command(run: str, file: Path | None, out: Path | None) -> None:
    """Pack a run or an experiment into one archive, to hand it to a colleague.

    FILE is RUN.tar.gz by default. Unpacked into an empty folder, it can be shown and verified.
    """
    from wirefault.experiments.bundle import write_bundle

    logs, name = logs_in(environ_below(out)), _resolved(run, out)
    file = file or Path(f"{name}.tar.gz")
    if name in {each.name for each in stored_runs(logs)}:
        _unaltered(logs, name, as_json=False)
    evidence = write_bundle(logs, name, file)
    click.echo(f"{file}  {_shown_size(file.stat().st_size)}  {evidence.text}")


def _print_object(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
