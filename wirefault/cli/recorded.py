"""Recorded runs and experiments as commands name and open them, and JSON as commands print it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.options import environ_below, logs_in
from wirefault.experiments.index import saved_ids

if TYPE_CHECKING:
    from wirefault.experiments.evidence import Evidence
    from wirefault.experiments.recorded import Recording


def resolved_id(run: str, out: Path | None) -> str:
    """Return the id of a run or an experiment; ``latest`` is the newest. Raises ``InputError``."""
    if run != "latest":
        return run
    from wirefault.experiments.evidence import latest_id

    return latest_id(logs_in(environ_below(out)))


def recording_named(name: str, out: Path | None, files: Sequence[Path] = ()) -> Recording:
    """Open a recording. ``files``: the experiment's file, whose functions then run."""
    from wirefault.experiments.recorded import open_recording, recording_of

    environ = environ_below(out)
    if files and name in saved_ids(logs_in(environ)):
        from wirefault.cli.saved import saved_experiment

        return recording_of(saved_experiment(name, out, files))
    return open_recording(logs_in(environ), name, environ)


def say_evidence(evidence: Evidence, *, verbose: bool = True, err: bool = False) -> None:
    """Print the state of a recording's files, of signed ones only if ``verbose``."""
    if verbose or evidence.state != "signed":
        click.echo(f"evidence: {evidence.text}", err=err)


def require_unaltered(logs: Path, name: str, as_json: bool) -> Evidence:
    """Return the state of the files. Exit if one was altered: nothing is scored from it."""
    from wirefault.experiments.evidence import AlteredError, evidence_of

    evidence = evidence_of(logs, name)
    try:
        evidence.require_unaltered()
    except AlteredError as error:
        click.echo(f"{error}\nnot scored: {name} was altered", err=True)
        if as_json:
            print_object({"run_id": name, "altered": error.places, "evidence": evidence.as_json()})
        sys.exit(error.code)
    return evidence


def print_object(value: Any) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
