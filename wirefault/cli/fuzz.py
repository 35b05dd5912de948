"""``wirefault fuzz``: fault sets drawn at random, each saved as an experiment."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click
import yaml

from wirefault.core.errors import InputError
from wirefault.core.lab_folder import sample_prompts
from wirefault.experiments.fuzz import SPACES, drawn_experiment
from wirefault.judging.oracle.expect import expect_check
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.wiring import lab_wiring, load_wiring


@click.command("fuzz")
@click.option("--n", "count", type=click.IntRange(1, 10_000), default=10, show_default=True, help="how many")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="the same draws the same")
@click.option(
    "--space",
    type=click.Choice(list(SPACES)),
    default="default",
    show_default=True,
    help="what may be drawn: anything, or faults of that kind; stress: much at once",
)
@click.option("--wiring", type=click.Path(path_type=Path), help="your wiring file; default: the lab's")
@click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file; default: the wiring's")
@click.option("--only", metavar="ID|N", multiple=True, help="this prompt alone; may be given several times")
@click.argument("folder", type=click.Path(path_type=Path))
def fuzz_command(
    count: int,
    seed: int,
    space: str,
    wiring: Path | None,
    prompts: Path | None,
    only: tuple[str, ...],
    folder: Path,
) -> None:
    """Draw fault sets, and save each one as an experiment in FOLDER. Flies nothing.

    The same seed and space give the same files: number 3 of ten is number 3 of a hundred.
    """
    wired = load_wiring(wiring) if wiring else lab_wiring()
    # so that what could not be flown is told now, and not once for each file
    load_prompts(prompts or wired.prompts or sample_prompts(), only, check_expect=expect_check(wired.links))
    more: dict[str, Any] = {}
    for key, path in (("wiring", wiring), ("prompts", prompts)):
        if path is not None:
            more[key] = os.path.relpath(path, folder)
    more |= {"only": list(only)} if only else {}
    for number in range(1, count + 1):
        drawn = drawn_experiment(seed, number, space, wired.links)
        text = yaml.safe_dump({**drawn, **more}, sort_keys=False, allow_unicode=True, width=100)
        _write(folder / f"fuzz-{space}-{seed}-{number:04}.yaml", text)
    click.echo(f"{count} experiments in {folder}; next: wirefault run {shlex.quote(str(folder))}")


def _write(path: Path, text: str) -> None:
    """Raises ``InputError`` for a file of that name that says something else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise InputError(f"{path}: is there already, with other words; remove it, or name another folder")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from None
