"""``wirefault compare`` and ``wirefault runs trend``: recordings beside each other. Runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from wirefault.cli.help import Command, option
from wirefault.cli.options import environ_below, logs_in, recorded_json_option, recorded_out_option
from wirefault.cli.recorded import print_object, recording_named
from wirefault.core.errors import DEVIATED, UNKNOWN, InputError

_CODES = {"not worse": 0, "worse": DEVIATED, "unknown": UNKNOWN}


@click.command(
    "compare",
    cls=Command,
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
@recorded_json_option
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
    from wirefault.experiments.compare import compare
    from wirefault.report.comparison import comparison_json, print_comparison, print_gate
    from wirefault.report.known_findings import compared_side, known_findings
    from wirefault.report.terminal import plain_console

    if (baseline is None) == (second is None):
        raise InputError("compare needs two recordings, or --baseline FILE and one")
    conditions = read_fail_on(fail_on)
    accepted = read_baseline(baseline) if baseline else None
    recordings = {"second": recording_named(second or first, out)}
    if accepted is None:
        recordings = {"first": recording_named(first, out), **recordings}
    sides = [compared_side(each, arms) for each in recordings.values()]
    compared = compare(accepted.side if accepted else sides[0], sides[-1], arms)
    gated = None
    if accepted is not None or fail_on is not None:
        findings = [known_findings(each, arms) for each in recordings.values()]
        known = accepted.findings if accepted else findings[0]
        gated = gate(compared, conditions, known, findings[-1], accepted.side if accepted else sides[0])
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
        print_object({**comparison_json(compared, gated, accepted), **figures, "evidence": evidence})
    else:
        print_comparison(plain_console(), compared, concludes=gated is None)
        for side, recording in recordings.items():
            click.echo(f"evidence of the {side}: {recording.evidence.text}")
        if gated is not None:
            print_gate(plain_console(), gated, accepted.age_text(datetime.now(UTC)) if accepted else "")
    sys.exit(
        {"passed": 0, "failed": DEVIATED, "unknown": UNKNOWN}[gated.word]
        if gated
        else _CODES[compared.change]
    )


@click.command(
    "trend",
    cls=Command,
    examples=("wirefault runs trend", "wirefault runs trend --tag nightly --html trend.html"),
)
@option("--title", default="*", metavar="PATTERN", help="Show experiments with this title.  [default: all]")
@option("--tag", default="", help="Show recordings with this tag (run --tag).")
@option("--last", type=click.IntRange(min=1), default=30, show_default=True, help="So many of each.")
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one page over all of them.")
@recorded_out_option
@recorded_json_option
def trend_command(
    title: str, tag: str, last: int, html: Path | None, out: Path | None, as_json: bool
) -> None:
    """Show how the statements of experiments fared over time. Runs nothing."""
    from wirefault.experiments.trend import read_trends
    from wirefault.history.logs import strip_control
    from wirefault.report.page.trends import trend_content
    from wirefault.report.page.write import write_page_to
    from wirefault.report.terminal import plain_console
    from wirefault.report.trends import print_trends, trends_json

    environ = environ_below(out)
    skipped: dict[str, str] = {}
    trends = read_trends(logs_in(environ), environ, skipped, title=title, tag=tag, last=last)
    for name, reason in skipped.items():
        click.echo(strip_control(f"{name}: not shown: {reason}"), err=True)
    if not trends:
        raise InputError(f"{logs_in(environ)}: no experiment with a verdict has this title or tag")
    if html is not None:
        selection = " ".join(filter(None, (title if title != "*" else "", f"tag {tag}" if tag else "")))
        write_page_to(trend_content(trends, selection or "all experiments"), html)
        click.echo(f"page: {html}", err=True)
    if as_json:
        print_object(trends_json(trends))
    else:
        print_trends(plain_console(), trends)
