"""Draw charts of runs: ``python charts.py [--run latest|ID|all] [--logs DIR] [--out DIR]``.

In a checkout it needs matplotlib alone. With Wirefault's packages it also checks the recorded files.
"""

from __future__ import annotations

from wirefault.core.interrupts import end_at_interrupt

if __name__ == "__main__":
    end_at_interrupt()  # before the imports, which take a while

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from wirefault.core.errors import LAB_FAILED, USAGE, UserError
from wirefault.core.lab_folder import logs_folder


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"charts: {message}: see {self.prog} --help\n")


def _parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="charts.py",
        description="Draw charts of one run or of all runs from their histories, and print the files' names.",
        allow_abbrev=False,
    )
    parser.add_argument("--run", default="latest", help="latest, all, or a run's ID.  [default: latest]")
    parser.add_argument(
        "--logs",
        type=Path,
        help="Folder of the histories. [LOGS_DIR]  [default: logs in a lab, else .wirefault/logs]",
    )
    parser.add_argument("--out", type=Path, help="Folder for the PNG files.  [default: LOGS/charts/RUN]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Draw charts. ``words``: in place of the command line. Errors end it by ``SystemExit``."""
    options = _parsed(words)
    logs: Path = options.logs or logs_folder(os.environ)
    try:
        from wirefault.report.charts import ChartsError, select_runs, write_charts
        from wirefault.report.charts.style import visible
    except ModuleNotFoundError as error:
        _end_without(error.name or "")

    def say(message: object) -> None:
        sys.stderr.write(f"{visible(str(message))}\n")

    try:
        selection = select_runs(logs, options.run, warn=lambda message: say(f"note: {message}"))
        name = "all" if options.run == "all" else selection.runs[0].run_id
        files = write_charts(selection, options.out or logs / "charts" / name, None if options.out else logs)
    except (ChartsError, UserError, OSError) as error:
        say(f"charts: {error}")
        sys.exit(USAGE if isinstance(error, ChartsError) else getattr(error, "code", LAB_FAILED))
    for drawn in selection.runs:
        say(f"evidence of {drawn.run_id}: {drawn.evidence}")
    for path in files:
        sys.stdout.write(f"{visible(str(path))}\n")


def _end_without(module: str) -> NoReturn:
    package = module.partition(".")[0]
    python = Path(".venv") / "bin" / "python"
    here = python.exists() and Path(sys.prefix).resolve() != python.parent.parent.resolve()
    remedy = f"use {python} charts.py" if here else f"{sys.executable} -m pip install {package}"
    sys.stderr.write(f"charts: the Python package {package} is not installed: {remedy}\n")
    sys.exit(LAB_FAILED)


if __name__ == "__main__":
    main()
