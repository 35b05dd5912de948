"""Draw charts of runs: ``python charts.py [--run latest|ID|all] [--logs DIR] [--out DIR]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

_LAB_FAILED = 70


def _end_without(module: str | None) -> NoReturn:
    package = (module or "").partition(".")[0]
    python = Path(".venv") / "bin" / "python"
    here = python.exists() and Path(sys.prefix).resolve() != python.parent.parent.resolve()
    remedy = f"use {python} charts.py" if here else f"{sys.executable} -m pip install {package}"
    sys.stderr.write(f"charts: the Python package {package} is not installed: {remedy}\n")
    sys.exit(_LAB_FAILED)


try:
    from wirefault.core.interrupts import end_at_interrupt

    if __name__ == "__main__":
        end_at_interrupt()  # before the imports, which take a while

    import click

    from wirefault.core.errors import USAGE
    from wirefault.core.lab_folder import logs_folder
    from wirefault.lab.extra import NotInstalled, require_charts
except ModuleNotFoundError as error:
    _end_without(error.name)


@click.command()
@click.option("--run", default="latest", show_default=True, help="latest, all, or a run's ID.")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    default=lambda: logs_folder(os.environ),
    help="Folder of the histories. [LOGS_DIR]  [default: logs in a lab, else .wirefault/logs]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the PNG files.  [default: LOGS/charts/RUN]",
)
def main(run: str, logs: Path, out: Path | None) -> None:
    """Draw charts of one run or of all runs from their histories, and print the files' names."""
    try:
        require_charts()
    except NotInstalled as error:
        click.echo(f"charts: {error}", err=True)
        sys.exit(_LAB_FAILED)
    try:
        from wirefault.experiments.evidence import AlteredError
        from wirefault.history.logs import strip_control
        from wirefault.report.charts import ChartsError, select_runs, write_charts
    except ModuleNotFoundError as error:
        _end_without(error.name)

    try:
        selection = select_runs(
            logs, run, warn=lambda message: click.echo(f"note: {strip_control(message)}", err=True)
        )
        name = "all" if run == "all" else selection.runs[0].run_id
        files = write_charts(selection, out or logs / "charts" / name, None if out else logs)
    except (ChartsError, OSError) as error:
        click.echo(strip_control(f"charts: {error}"), err=True)
        sys.exit(USAGE if isinstance(error, ChartsError) else _LAB_FAILED)
    except AlteredError as error:
        click.echo(f"charts: {error}", err=True)
        sys.exit(error.code)
    for drawn in selection.runs:
        click.echo(f"evidence of {drawn.run_id}: {drawn.evidence}", err=True)
    for path in files:
        click.echo(strip_control(str(path)))


if __name__ == "__main__":
    main()
