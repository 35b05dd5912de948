"""``wirefault compare``: two experiments, or two runs, side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from wirefault.cli.experiment import environ_of
from wirefault.core.errors import DEVIATED, UNKNOWN
from wirefault.experiments.compare import compare
from wirefault.experiments.recorded import open_recording
from wirefault.report.comparison import comparison_json, print_comparison
from wirefault.report.terminal import plain_console

_CODES = {"not worse": 0, "worse": DEVIATED, "unknown": UNKNOWN}


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option("--arm", "arms", multiple=True, help="this arm alone; may be given several times")
@click.option("--out", type=click.Path(path_type=Path), help="folder of the logs/")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def compare_command(first: str, second: str, arms: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Compare two experiments or runs: success, measures, outcomes, settings. Flies nothing.

    FIRST and SECOND are their ids, or latest. The exit code is 1 if the second succeeds less often, beyond
    the 95 % interval of the difference, and 2 if that cannot be said.
    """
    environ = environ_of(out)
    logs = Path(environ.get("LOGS_DIR") or "logs")
    compared = compare(open_recording(logs, first, environ), open_recording(logs, second, environ), arms)
    if as_json:
        sys.stdout.write(json.dumps(comparison_json(compared), ensure_ascii=False) + "\n")
    else:
        print_comparison(plain_console(), compared)
    sys.exit(_CODES[compared.change])
