"""``wirefault init``: files for a project from what an audit found."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import click

from wirefault.audit.experiment_file import Acceptance, experiment_text, failing_answers, wiring_text
from wirefault.audit.options import latest_audit
from wirefault.audit.result import AuditResult, read_audit
from wirefault.cli.help import Command, option
from wirefault.cli.options import environ_below, logs_in, options, out_option
from wirefault.core.errors import InputError
from wirefault.experiments.saved import load_saved
from wirefault.judging.summary import counted
from wirefault.lab.process import print_to_stderr
from wirefault.report.next_command import with_folder

KEPT, KEPT_WIRING = "wirefault.audit.yaml", "wirefault.audit.wiring.yaml"
_WIRING, _WORKFLOW = "wirefault.yaml", ".github/workflows/wirefault.yml"
_WORKFLOW_TEXT = """\
# Made by `wirefault init`: what your agent did well must stay so, and what it did not must go.
name: wirefault
on: [push, pull_request]
jobs:
  agent:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install wirefault
      # install your agent and start its servers here
      - run: wirefault run wirefault.audit.yaml --reports reports
      - run: cat reports/summary.md >> "$GITHUB_STEP_SUMMARY"
        if: always()
      - uses: actions/upload-artifact@v4
        if: always()
        with: {name: wirefault, path: reports}
"""


accept_option = option(
    "--accept",
    metavar="QUESTION=REASON",
    multiple=True,
    section="Output",
    help="Let this question's HARM or RISK not fail the written experiment; it notes the reason and today."
    " Repeatable.",
)


def today() -> date:
    return datetime.now(UTC).date()


@click.command(
    "init",
    cls=Command,
    examples=(
        "wirefault audit -- python my_agent.py; wirefault init",
        "wirefault init 20260301-101500-ab12cd",
        "wirefault init --accept q01='the shop refuses a second order of the same day'",
    ),
)
@options(accept_option, out_option)
@click.argument("audit", required=False)
def init_command(audit: str | None, accept: tuple[str, ...], out: Path | None) -> None:
    """Write a wiring, an experiment and a CI file into this folder, from what an audit found.

    AUDIT is its id, by default the newest audit. The experiment has the audit's faults, each certain, with
    checks for the good ends. It fails while a HARM or RISK of the audit is left, unless that is accepted.
    The whole lab comes from wirefault lab init.
    """
    accepted = Acceptance.read(accept, today())
    check_free("init", _WIRING, KEPT, _WORKFLOW)
    environ = environ_below(out) if out else dict(os.environ)
    logs = logs_in(environ)
    name = audit or latest_audit(logs)
    if name is None:
        raise InputError(
            f"{logs}: no audit there; run one first: wirefault audit -- COMMAND. A folder with the whole lab:"
            " wirefault lab init"
        )
    result = read_audit(load_saved(logs, name, environ))
    files = keep_audit(result, accepted, _WIRING)
    Path(_WORKFLOW).parent.mkdir(parents=True, exist_ok=True)
    Path(_WORKFLOW).write_text(_WORKFLOW_TEXT, encoding="utf-8")
    for file in (*files, _WORKFLOW):
        click.echo(file)


def check_free(option_name: str, *files: str) -> None:
    """Raise ``InputError`` if one of the files exists."""
    for file in files:
        if Path(file).exists():
            raise InputError(f"{option_name}: {file} exists already: remove or rename it")


def keep_audit(result: AuditResult, accepted: Acceptance, wiring_file: str = KEPT_WIRING) -> list[str]:
    """Write the audit's experiment, and its wiring unless it has a file; return the files.

    Raises ``InputError`` if no question leaves a check, or if something is accepted that was not found.
    """
    wiring, written = result.saved.plan.configuration.wiring, [KEPT]
    has_file = Path(wiring.file).is_file()
    text = experiment_text(result, wiring.file if has_file else wiring_file, accepted)
    if not has_file:
        Path(wiring_file).write_text(wiring_text(result, os.path.relpath(wiring.folder)), encoding="utf-8")
        written.insert(0, wiring_file)
    Path(KEPT).write_text(text, encoding="utf-8")
    if unasked := len(result.asks) - len(result.answers):
        saved = result.saved
        print_to_stderr(
            f"{unasked} of {counted(len(result.asks), 'question')} not asked, so not in it; to ask them:"
            f" {with_folder(saved.resume_command, saved.logs)}"
        )
    print_to_stderr(f"the audit as an experiment: wirefault run {KEPT}")
    if failing := [answer.ask.id for answer in failing_answers(result, accepted)]:
        print_to_stderr(
            f"it fails until the findings of {', '.join(failing)} are mended, or accepted:"
            f" --accept {failing[0]}='REASON'"
        )
    return written
