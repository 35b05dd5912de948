"""The data of a recorded run for the charts, from its checked history; needs all packages."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wirefault.experiments.evidence import evidence_of
from wirefault.experiments.recorded import control_of_run
from wirefault.history.reader import HistoryError, read_history
from wirefault.judging.chart_data import ChartsError, RunData
from wirefault.judging.charted import run_data


def read_recorded(logs: Path, name: str, warn: Callable[[str], None]) -> RunData:
    """Read a run. Raises ``ChartsError``, or ``AlteredError`` if one of its files was altered."""
    try:
        evidence = evidence_of(logs, name)
        evidence.require_unaltered()
        history = read_history(logs, name)
        data = run_data(history.events(), control_of_run(logs, name, {**os.environ, "LOGS_DIR": str(logs)}))
    except HistoryError as error:
        place = logs / "runs" / name
        where = "" if str(error).startswith(str(place)) else f"{place}: "
        raise ChartsError(f"{where}{error}") from None
    except OSError as error:
        raise ChartsError(f"cannot read the run {name}: {error}") from None
    if history.torn:
        warn(
            f"run {name}: {history.torn} unfinished last line(s) not counted; its writer was killed or writes"
        )
    return replace(data, run_id=name, evidence=evidence.text)
