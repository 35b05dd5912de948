"""Options that several commands share: settings, prompts, and how to run and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from wirefault.cli.help import SETTINGS, option
from wirefault.core.errors import InputError, nearest
from wirefault.core.lab_folder import logs_folder, output_folder
from wirefault.judging.ending import FAIL_ON, FailOn
from wirefault.judging.oracle.expect import expect_check
from wirefault.settings.settings import SETTABLE, Settings, example_values
from wirefault.wiring.links import Links
from wirefault.wiring.prompts import (
    Prompts,
    PromptsError,
    load_prompts,
    prompts_from_texts,
    prompts_name,
)

MAX_WORKERS = 64
_PATH = click.Path(path_type=Path)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class RunOptions:
    """How to run and what to report."""

    toxiproxy: str = "auto"
    out: Path | None = None
    as_json: bool = False
    as_is: bool = False  # the subject has this process's input
    on_stderr: bool = False  # the console, since standard output is the subject's
    workers: str = "1"
    # of an experiment
    changes: dict[str, Any] = field(default_factory=dict)
    engine: str = "local"
    verbose: bool = False
    fail_fast: bool = False
    retry_invalid: int = 0
    filters: tuple[str, ...] = ()
    recursive: bool = False
    junit: Path | None = None
    output: Path | None = None
    reports: Path | None = None
    tags: tuple[str, ...] = ()
    # of a wiring
    subject: str | None = None
    playbooks: Path | None = None  # of the scripted model, before the shipped ones
    charts: bool | None = None  # None: if they can be drawn
    fail_on: FailOn | None = "risky"  # None: it only shows


@dataclass(frozen=True)
class PromptsOptions:
    """The prompts named on the command line: ``texts``, or all or some prompts of a file."""

    file: Path | None
    texts: tuple[str, ...]
    only: tuple[str, ...]
    match: str

    def load(self, default: Path, links: Links) -> Prompts:
        """Load the prompts, from the ``default`` file if none is named. Raises ``PromptsError``.

        Oracles may only expect requests on these ``links``.
        """
        if not self.texts:
            file = self.file or default
            name = prompts_name(file, os.environ)
            return load_prompts(file, self.only, self.match, expect_check(links), name=name)
        if self.file or self.only or self.match:
            raise PromptsError("--prompt cannot be combined with --prompts, --only or --match")
        return prompts_from_texts(self.texts)


prompt_option = option(
    "--prompt", "texts", metavar="TEXT", multiple=True, section="Agent", help="Send this prompt. Repeatable."
)
prompts_option = option(
    "--prompts", "file", type=_PATH, section="Agent", help="Send the prompts of this file. [PROMPTS_FILE]"
)
only_option = option(
    "--only",
    metavar="ID|N",
    multiple=True,
    section="Agent",
    help="Send only the prompt with this id, or the ids that a pattern with * matches, or the Nth prompt; its"
    " faults and its number stay. Repeatable.",
)
match_option = option(
    "--match", metavar="TEXT", default="", section="Agent", help="Send only prompts that contain TEXT."
)
playbooks_option = option(
    "--playbooks",
    type=_PATH,
    section="Agent",
    help="Let the scripted model answer by this file's playbooks before the shipped ones. [PLAYBOOKS]",
)
subject_option = option(
    "--subject",
    metavar="NAME|MODULE:FACTORY",
    section="Agent",
    help="Test this agent: lab (the lab's own), a name from an installed package, or a function of a module,"
    " also of a module in this folder.  [default: the wiring's]",
)
toxiproxy_option = option(
    "--toxiproxy",
    default="auto",
    show_default=True,
    section="Other",
    help="Use this Toxiproxy: auto, embedded, or a server's URL.",
)
out_option = option(
    "--out",
    type=_PATH,
    section="Output",
    help="Keep state/ and logs/ in this folder.  [default: . in a lab, else .wirefault]",
)
recorded_out_option = option(
    "--out",
    type=_PATH,
    help="Read logs/ of this folder, or of its .wirefault/.  [default: .]",
)
recorded_json_option = option("--json", "as_json", is_flag=True, help="Print one JSON object.")
fail_on_option = option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="risky",
    show_default=True,
    section="Output",
    help="Exit with 1 if a finding is at least this severe; none: never because of a finding.",
)
json_option = option("--json", "as_json", is_flag=True, section="Output", help="Print one JSON object.")
engine_option = option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    section="Other",
    help="Run episodes on this machine, or on a Ray cluster.",
)
verbose_option = option(
    "--verbose", "-v", is_flag=True, section="Output", help="Show each arm's run as it happens."
)
retry_invalid_option = option(
    "--retry-invalid",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    section="Limits",
    help="Repeat episodes in which the lab failed, up to this often; both are reported.",
)
filter_option = option(
    "--filter",
    "filters",
    metavar="PATTERN",
    multiple=True,
    section="Other",
    help="Select experiments by title or tag; * matches any part. Repeatable.",
)
repeats_option = option(
    "--repeats", type=int, section="Limits", help="Run each prompt this often.  [default: the experiment's]"
)
until_decided_option = option(
    "--until-decided",
    is_flag=True,
    section="Limits",
    help="Repeat the prompts until sequential tests decide the claims, or a limit is reached.",
)
max_episodes_option = option(
    "--max-episodes",
    type=click.IntRange(min=1),
    section="Limits",
    help="With --until-decided: the most episodes of an arm.  [1000]",
)
max_time_option = option(
    "--max-time", metavar="TIME", section="Limits", help="Begin no episode after this time, such as 10min."
)
max_cost_option = option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    section="Limits",
    help="Begin no episode once this is spent; needs `prices`.",
)


def _checked_workers(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != "auto" and not (value.isdecimal() and 1 <= int(value) <= MAX_WORKERS):
        raise click.BadParameter(f"must be auto or 1 to {MAX_WORKERS}, not {value}")
    return value


workers_option = option(
    "--workers",
    default="1",
    show_default=True,
    callback=_checked_workers,
    section="Limits",
    help="Run this many episodes side by side; auto: one per processor where the wiring allows it.",
)


def charts_option(default: bool | None) -> Decorator:
    """Add ``--charts`` and ``--no-charts``."""
    return option(
        "--charts/--no-charts",
        default=default,
        show_default=default is not None,
        section="Output",
        help="Draw the run's charts.",
    )


def options(*decorators: Decorator) -> Decorator:
    """Add all of these options, in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def environ_below(out: Path | None) -> dict[str, str]:
    """The environment, with state and logs below that folder."""
    environ = dict(os.environ)
    if out is not None:
        folder = output_folder(out)
        environ |= {
            "STATE_DB": str(folder / "state" / "state.db"),
            "EFFECTS_DB": str(folder / "state" / "effects.db"),
            "LOGS_DIR": str(folder / "logs"),
        }
    return environ


def logs_in(environ: Mapping[str, str]) -> Path:
    return logs_folder(environ)


prompts_options = options(prompt_option, prompts_option, only_option, match_option)


def check_playbooks(environ: Mapping[str, str]) -> None:
    """Raise for the user's playbooks that cannot be read, before a lab starts. ``InputError``."""
    if own := environ.get("PLAYBOOKS"):
        from wirefault.model_server.playbooks import load_playbooks  # reads the scripted model's English

        load_playbooks(Path(own))


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--set`` and an option per setting; the command gets ``settings``, their texts by name.

    The texts are validated with the other sources.
    """

    @wraps(command)
    def with_settings(*arguments: Any, changed: tuple[str, ...], **values: Any) -> Any:
        chosen = {name: values.pop(name) for name in SETTABLE}
        settings = {name: text for name, text in chosen.items() if text is not None}
        return command(*arguments, settings=settings, **values)

    for name in reversed(SETTABLE):
        text = Settings.model_fields[name].description or ""
        text = f"{text[:1].upper()}{text[1:]}. [{name.upper()}]"
        flag = f"--{name.replace('_', '-')}"
        with_settings = option(flag, name, metavar="VALUE", section=SETTINGS, help=text)(with_settings)
    return _set_option(with_settings)


SET = "changed"  # the parameter of --set


def is_named(context: click.Context, name: str) -> bool:
    """Whether the command line names this parameter, if by ``--set``."""
    source = context.get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def _key_of(parameter: click.Parameter) -> str:
    """Return the option's name in ``--set``."""
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")


def _keys(context: click.Context) -> dict[str, click.Option]:
    """Return the command's options, but for ``--set``, by their names there."""
    options = (each for each in context.command.params if isinstance(each, click.Option))
    return {_key_of(each): each for each in options if each.name != SET}


def _take_each(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Let each KEY=VALUE be the default of the option of that name. Raises ``InputError``."""
    options, taken = _keys(context), dict(context.default_map or {})
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--set {word}: must be KEY=VALUE, such as --set model_timeout=10")
        name = key.lower().replace("-", "_")
        if name not in options:
            raise InputError(f"--set {word}: unknown key {key}{nearest(name, options)}")
        each = options[name]
        taken[str(each.name)] = [*taken.get(str(each.name), []), value] if each.multiple else value
    context.default_map = taken
    return words


def _complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete ``--set``: each setting with the values that it may have, or with its default."""
    words = [f"{name}={value}" for name in SETTABLE for value in example_values(name) or ("",)]
    words += [f"{key}=" for key in _keys(context) if key not in SETTABLE]
    return [CompletionItem(word) for word in words if word.startswith(begun.lower())]


_set_option = option(
    "--set",
    SET,
    metavar="KEY=VALUE",
    multiple=True,
    is_eager=True,
    callback=_take_each,
    shell_complete=_complete,
    section="Other",
    help="Set a setting, or any other option of this command. Repeatable. --help-all shows all.",
)


def sequential_changes(
    until_decided: bool, max_episodes: int | None, max_time: str | None, max_cost: float | None
) -> dict[str, Any]:
    """Return the changes to an experiment that make it run until its claims are decided."""
    limits = {"episodes": max_episodes, "time": max_time, "cost": max_cost}
    chosen = {name: value for name, value in limits.items() if value is not None}
    changes: dict[str, Any] = {"until_decided": True} if until_decided else {}
    return changes | ({"limits": chosen} if chosen else {})


def experiment_changes(
    settings: Mapping[str, str], repeats: int | None, only: Sequence[str]
) -> dict[str, Any]:
    """Return the command line's changes to an experiment, by key. Raises ``InputError``."""
    values: dict[str, Any] = {
        "seed": seed_in(settings),
        "repeats": repeats,
        "settings": {name: text for name, text in settings.items() if name != "seed"} or None,
        "only": list(only) or None,
    }
    if "faults" in settings:
        raise InputError(
            "--faults: an experiment names its faults in `method`; change them there, or run its wiring"
            " without a hypothesis: wirefault run WIRING --faults NAME"
        )
    return {key: value for key, value in values.items() if value is not None}


def seed_in(settings: Mapping[str, str]) -> int | None:
    """Return the seed, if it is set. Raises ``InputError``."""
    if (seed := settings.get("seed")) is None:
        return None
    try:
        return int(seed)
    except ValueError:
        raise InputError(f"--seed {seed!r} is not a valid integer") from None


def command_words(context: click.Context, *, except_: Sequence[str] = ()) -> list[str]:
    """Return the words that give the current command again, without the options of these names."""
    arguments: list[str] = []
    named: list[str] = []
    for each in context.command.params:
        name = each.name or ""
        value = context.params.get(name)
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(each, click.Argument):
            arguments += map(str, values)
        elif name not in except_ and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            if isinstance(each, click.Option) and each.is_flag and isinstance(value, bool):
                named.append(max(each.opts if value else each.secondary_opts, key=len))
            else:
                named += [f"{max(each.opts, key=len)}={one}" for one in values]
    return [*context.command_path.split(), *arguments, *named]
