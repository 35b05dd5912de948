"""``wirefault report`` and ``wirefault runs verify``: verdicts computed again from recorded histories."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Command, option
from wirefault.cli.options import (
    environ_below,
    fail_on_option,
    is_named,
    logs_in,
    recorded_json_option,
    recorded_out_option,
    verbose_option,
)
from wirefault.cli.recorded import (
    print_object,
    recording_named,
    require_unaltered,
    resolved_id,
    say_evidence,
)
from wirefault.core.errors import DEVIATED, UNKNOWN, InputError
from wirefault.experiments.index import has_begun, run_ids_of, saved_ids, unknown_recording
from wirefault.judging.ending import FailOn, run_ending

if TYPE_CHECKING:
    from wirefault.experiments.recorded import Recording
    from wirefault.experiments.run_experiment import ExperimentResult
    from wirefault.experiments.search.run_search import SearchResult
    from wirefault.judging.judge import ByControl, RunJudgement
    from wirefault.judging.summary import Summary
    from wirefault.report.page.parts import PageContent


@click.command(
    "report",
    cls=Command,
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
@recorded_json_option
@option("--junit", type=click.Path(allow_dash=True), metavar="FILE|-", help="Write the verdict as JUnit XML.")
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one page with everything.")
@option(
    "--md",
    type=click.Path(allow_dash=True),
    metavar="FILE|-",
    help="Write the page's short form as Markdown.",
)
@option("--otlp", metavar="URL", help="Send its spans to this OpenTelemetry collector, over OTLP/HTTP.")
@fail_on_option
@verbose_option
def report_command(
    run: str,
    file: Path | None,
    out: Path | None,
    as_json: bool,
    junit: str | None,
    html: Path | None,
    md: str | None,
    otlp: str | None,
    fail_on: FailOn,
    verbose: bool,
) -> None:
    """Show an experiment's verdict, computed from its histories. Runs nothing.

    The exit code is the verdict's. Of a run or an audit --fail-on decides, whichever the command that made it
    was given; of one that was interrupted, 1 if it shows something at or above --fail-on, else 2.
    Functions of a plan that this user did not sign are called only if FILE, the experiment's file, is named.
    """
    if (code := _report_tournament(run, out, as_json, junit, html, md)) is not None:
        sys.exit(code)
    name = resolved_id(run, out)
    logs = logs_in(environ_below(out))
    files = [file] if file else []
    # one recording for all outputs, since it remembers what its histories show
    recording = cache(lambda: recording_named(name, out, files))
    if (
        name in saved_ids(logs)
        and is_named(click.get_current_context(), "fail_on")
        and _has_hypothesis(recording())
    ):
        raise InputError("--fail-on: does not apply to an experiment: its hypothesis decides")
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

        return page_json(content)

    if name in saved_ids(logs) and (search := _search_named(name, out, as_json)) is not None:
        if junit is not None:
            from wirefault.report.junit import search_junit

            _write_output("--junit", junit, search_junit(search))
        with redirect_stdout(StringIO()) if "-" in (junit, md) else nullcontext():
            _show_search(search, as_json, figures, says_signed=verbose)
        sys.exit(search.code)
    result = judged() if name in saved_ids(logs) else None
    summary = None if result else recording().arms[""].summary
    if junit is not None:
        _write_output("--junit", junit, _junit_text(result, summary, fail_on))
    # a document on standard output is alone there
    with redirect_stdout(StringIO()) if "-" in (junit, md) else nullcontext():
        if summary is None:
            assert result is not None
            _show_report(result, as_json, figures, verbose=verbose, says_signed=verbose)
            code = _ending(result, fail_on)
        else:
            judgement = recording().arms[""].judgements[name]
            code = _verify_run(
                name, logs, "", as_json, "", figures, judgement, verbose=verbose, says_signed=verbose
            )
            code = code or run_ending(summary, fail_on)
    sys.exit(code)


def _has_hypothesis(recording: Recording) -> bool:
    from wirefault.audit.options import is_audit

    saved = recording.experiment
    return saved is not None and not saved.plan.is_plain_run and not is_audit(saved)


def _junit_text(result: ExperimentResult | None, summary: Summary | None, fail_on: FailOn) -> str:
    from wirefault.audit.options import is_audit
    from wirefault.audit.result import read_audit
    from wirefault.report.audit_files import audit_junit
    from wirefault.report.junit import junit, run_junit

    if result is None:
        assert summary is not None
        return run_junit(summary, fail_on)
    if is_audit(result.saved):  # its clean runs decide what a finding is
        return audit_junit(read_audit(result.saved), fail_on)
    return junit([result], fail_on)


def _ending(result: ExperimentResult, fail_on: FailOn) -> int:
    from wirefault.audit.options import is_audit
    from wirefault.audit.result import recorded_ending

    if is_audit(result.saved):
        return recorded_ending(result.saved, fail_on)
    return result.ending(fail_on)


def _report_tournament(
    name: str, out: Path | None, as_json: bool, junit_file: str | None, html: Path | None, md: str | None
) -> int | None:
    """Show the tournament of that id; None if it is not one."""
    environ = environ_below(out)
    logs = logs_in(environ)
    if f"{name}.1" not in saved_ids(logs):
        return None
    if is_named(click.get_current_context(), "fail_on"):
        raise InputError("--fail-on: does not apply to a tournament")
    from wirefault.cli.results import show_tournament
    from wirefault.experiments.run_tournament import load_tournament, result_of
    from wirefault.report.junit import junit
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
        print_object(result.as_json())
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

    require_unaltered(logs_in(environ_below(out)), name, as_json)
    saved = recording().experiment
    assert saved is not None
    saved.facts.keeps_judgements = True  # the page shows them
    return judged_again(saved)


def _search_named(name: str, out: Path | None, as_json: bool) -> SearchResult | None:
    """Return a search and its answer; None for other experiments."""
    from wirefault.cli.saved import saved_experiment
    from wirefault.experiments.search.run_search import answer_of

    require_unaltered(logs_in(environ_below(out)), name, as_json)
    saved = saved_experiment(name, out)
    return answer_of(saved) if saved.plan.search else None


def _show_search(
    result: SearchResult,
    as_json: bool,
    figures: Callable[[], Mapping[str, Any]],
    *,
    says_signed: bool = True,
) -> None:
    from wirefault.report.search import search_lines

    saved = result.saved
    if as_json:
        print_object({**result.as_json(), **figures(), "evidence": saved.evidence.as_json()})
        return
    for line in (saved.plan.experiment.title, *search_lines(result)):
        click.echo(line)
    say_evidence(saved.evidence, verbose=says_signed)


def _page_content(recording: Recording, judged: Callable[[], ExperimentResult]) -> PageContent:
    """Describe the page; the template engine is slow to import."""
    from wirefault.report.page.write import page_content

    return page_content(recording, lambda _: judged())


def _show_report(
    result: ExperimentResult,
    as_json: bool,
    figures: Callable[[], Mapping[str, Any]] = dict,
    *,
    verbose: bool = False,
    says_signed: bool = True,
) -> int:
    from wirefault.audit.options import is_audit
    from wirefault.cli.results import show_result
    from wirefault.report.terminal import plain_console

    evidence = result.saved.evidence
    if as_json:
        document = {**result.as_json(), **figures(), "evidence": evidence.as_json()}
        if is_audit(result.saved):  # which counts findings by its questions, in another field
            for arm in document["arms"]:
                arm["measures"].pop("findings", None)
        print_object(document)
    else:
        console = plain_console()
        console.print(result.plan.experiment.title, style="bold", markup=False)
        show_result(console, result, verbose=verbose)
        say_evidence(evidence, verbose=says_signed)
    return result.code


@click.command(
    "verify",
    cls=Command,
    examples=("wirefault runs verify latest", "wirefault runs verify latest --event gateway-0:17"),
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
@recorded_json_option
def verify_command(run: str, out: Path | None, prompts: str, event: str, as_json: bool) -> None:
    """Check that a run's history is unaltered, and score it again.

    Findings name the events that prove them: RUN/gateway-0:17 is line 17 of the run's gateway-0.jsonl. The
    exit code is 2 if a history was altered (then nothing is scored), or if its score differs from the
    recorded one; otherwise it is the verdict's. Without a hypothesis it is 0, whatever was found: wirefault
    report ends by that.
    """
    logs, name = logs_in(environ_below(out)), resolved_id(run, out)
    runs = run_ids_of(logs, name)
    if not runs and name not in saved_ids(logs):
        raise unknown_recording(logs, name)
    if name not in saved_ids(logs) or runs == [name] or event:
        of_run, _, event = event.rpartition("/")
        of_runs = [each for each in runs if each == of_run] if of_run else runs
        if event and len(of_runs) != 1:
            raise InputError(f"--event: name one of the runs of {name}: {', '.join(runs)}")
        sys.exit(_verify_run(of_runs[0] if event else name, logs, prompts, as_json, event))
    require_unaltered(logs, name, as_json)
    begun = [run_id for run_id in runs if has_begun(logs, run_id)]
    different = [f"{run_id}: {text}" for run_id in begun for text in _differences(run_id, logs)]
    recording = recording_named(name, out)
    judged = cache(lambda: _judged(name, out, as_json, lambda: recording))

    def figures() -> Mapping[str, Any]:
        from wirefault.report.page.write import page_json

        return page_json(lambda: _page_content(recording, judged))

    if (search := _search_named(name, out, as_json)) is not None:
        _show_search(search, as_json, figures)
        code = search.code
    else:
        code = _show_report(judged(), as_json, figures)
    for line in different:
        click.echo(f"differs from the recorded outcome: {line}", err=True)
    is_plain = recording.experiment is not None and recording.experiment.plan.is_plain_run
    sys.exit(UNKNOWN if different else 0 if is_plain else code)


def _verify_run(
    run_id: str,
    logs: Path,
    prompts: str,
    as_json: bool,
    event: str = "",
    figures: Callable[[], Mapping[str, Any]] = dict,
    judgement: RunJudgement | None = None,
    *,
    verbose: bool = False,
    says_signed: bool = True,
) -> int:
    """Show a run and return the exit code: as judged, or without a ``judgement`` judged again."""
    from wirefault.history.reader import read_history
    from wirefault.judging.judge import judge_run
    from wirefault.judging.summary import summary_of

    evidence = require_unaltered(logs, run_id, as_json)
    try:
        history = read_history(logs, run_id)
        if event:
            click.echo(history.line(event).decode("utf-8", "replace"))
            click.echo(f"evidence: {evidence.text}", err=True)
            return 0
        control: Mapping[str, ByControl] = {}
        if judgement is None and any(run_id.startswith(f"{name}-") for name in saved_ids(logs)):
            from wirefault.experiments.recorded import control_of_run  # slow to import, and often not needed

            control = control_of_run(logs, run_id, {**os.environ, "LOGS_DIR": str(logs)})
        if judgement is None:
            judgement = judge_run(history.events(), {}).by_control(control)
        summary = summary_of(judgement, torn=history.torn)
    except ValueError as error:
        raise InputError(str(error)) from None
    summary = replace(summary, remarks=[*history.integrity.remarks(), *summary.remarks])
    if as_json:
        checked = {"seal": history.integrity.seal, "altered": [], "evidence": evidence.as_json()}
        print_object({**summary.as_json(), **checked, **figures()})
    else:
        _show_summary(summary, prompts, logs, verbose=verbose)
        say_evidence(evidence, verbose=says_signed)
    return UNKNOWN if summary.differences else 0


def _differences(run_id: str, logs: Path) -> list[str]:
    """Judge the run again, and return what differs from the recorded judgements."""
    from wirefault.history.reader import read_history
    from wirefault.judging.judge import judge_run

    try:
        return judge_run(read_history(logs, run_id).events(), {}).differences
    except ValueError as error:
        raise InputError(str(error)) from None


def _show_summary(summary: Summary, prompts: str, logs: Path, *, verbose: bool) -> None:
    from wirefault.history.reader import LIVE
    from wirefault.report.console import episode_line
    from wirefault.report.reproduce import summary_command
    from wirefault.report.summary import print_summary
    from wirefault.report.terminal import line_width, plain_console

    console = plain_console()
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), line_width(console)))
    if summary.run_id.startswith(LIVE):  # commands do not repeat traffic that came from other programs
        print_summary(console, summary, logs=logs, verbose=verbose)
        return
    print_summary(console, summary, summary_command(summary, prompts), logs=logs, verbose=verbose)
