"""The options of what flies or plans experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wirefault.core.errors import InputError

_MOST_WORKERS = 64


@dataclass(frozen=True)
class ExperimentOptions:
    """What the command line says besides the experiments: ``changes`` to them, and how to fly and report."""

    changes: dict[str, Any]
    toxiproxy: str = "auto"
    out: Path | None = None
    as_json: bool = False
    junit: Path | None = None
    verbose: bool = False
    fail_fast: bool = False
    workers: str = "1"
    retry_invalid: int = 0
    filters: tuple[str, ...] = ()
    dry_run: bool = False
    output: Path | None = None
    engine: str = "local"


def _checked_workers(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != "auto" and not (value.isdecimal() and 1 <= int(value) <= _MOST_WORKERS):
        raise click.BadParameter(f"must be auto or 1 to {_MOST_WORKERS}, not {value}")
    return value


workers_option = click.option(
    "--workers",
    default="1",
    show_default=True,
    callback=_checked_workers,
    help="so many episodes side by side; auto: one a processor, where the wiring bears it",
)

engine_option = click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="where episodes are flown: on this machine, or on a Ray cluster",
)


retry_invalid_option = click.option(
    "--retry-invalid",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="fly episodes in which the lab failed again, so often; the report has both",
)
filter_option = click.option(
    "--filter",
    "filters",
    metavar="PATTERN",
    multiple=True,
    help="only experiments with such a title or tag, * for any part; several: any of them",
)
_NAMES_OF_RUN = ("workers", "engine", "retry_invalid", "filters", "dry_run", "output")


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the command line changes of an experiment; the command gets ``changes``, by key."""

    def with_changes(seed: int | None, repeats: int | None, changed: tuple[str, ...], **others: Any) -> Any:
        given = {"seed": seed, "repeats": repeats, "settings": dict(map(_name_and_value, changed)) or None}
        return command(changes={key: value for key, value in given.items() if value is not None}, **others)

    return _with_options(
        with_changes,
        command,
        click.option("--set", "changed", metavar="NAME=VALUE", multiple=True, help="a setting of all arms"),
        click.option("--repeats", type=int, help="how often each prompt is flown"),
        click.option("--seed", type=int, help="of all draws, in the place of the experiment's"),
    )


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is said of experiments alone; the command gets ``experiment``, None if nothing is."""

    def with_experiment(
        changes: dict[str, Any],
        toxiproxy: str | None,
        out: Path | None,
        junit: Path | None,
        verbose: bool,
        fail_fast: bool,
        **others: Any,
    ) -> Any:
        own = {name: others.pop(name) for name in _NAMES_OF_RUN}
        said = ExperimentOptions(changes, toxiproxy or "auto", out, False, junit, verbose, fail_fast, **own)
        return command(experiment=None if said == ExperimentOptions({}) else said, **others)

    return change_options(
        _with_options(
            with_experiment,
            command,
            workers_option,
            engine_option,
            retry_invalid_option,
            filter_option,
            click.option("--dry-run", is_flag=True, help="print what wirefault plan does; fly nothing"),
            click.option(
                "--output", type=click.Path(path_type=Path), help="write what --json prints into this file"
            ),
            click.option("--fail-fast", is_flag=True, help="after one that has not held fly no other"),
            click.option("--verbose", "-v", is_flag=True, help="show each arm's run as it goes"),
            click.option(
                "--junit", type=click.Path(path_type=Path), help="write the verdicts as JUnit's XML"
            ),
            click.option("--out", type=click.Path(path_type=Path), help="folder for state/ and logs/"),
            click.option("--toxiproxy", help="auto (the default), embedded, or a server's URL"),
        )
    )


def _with_options(
    wrapper: Callable[..., Any], command: Callable[..., Any], *options: Callable[..., Any]
) -> Callable[..., Any]:
    wrapper.__doc__ = command.__doc__
    wrapper.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in options:
        wrapper = option(wrapper)
    return wrapper


def rerun_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How an experiment is flown that was saved."""
    for option in (
        workers_option,
        engine_option,
        click.option("--verbose", "-v", is_flag=True, help="show each arm's run as it goes"),
        click.option("--out", type=click.Path(path_type=Path), help="folder of its state/ and logs/"),
        click.option(
            "--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL"
        ),
    ):
        command = option(command)
    return command


only_option = click.option(
    "--only",
    metavar="ID|N",
    multiple=True,
    help="this prompt alone, or those whose id a pattern with * matches; may be given several times",
)


def prompts_picked(only: Sequence[str]) -> dict[str, Any]:
    """The change that leaves these prompts alone; none if nothing is picked."""
    return {"only": list(only)} if only else {}


def _name_and_value(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise InputError(f"--set {given}: write NAME=VALUE, such as --set model_timeout=10")
    return name.lower(), value
