"""Options that several commands share, each declared once as a field of a dataclass; settings; ``--set``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from wirefault.cli.help import SETTINGS, option
from wirefault.core.errors import InputError, nearest
from wirefault.core.lab_folder import logs_folder, output_folder
from wirefault.judging.ending import FailOn
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
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def declared(default: Any, section: str, text: str, *names: str, **attributes: Any) -> Any:
    """Return a field of a dataclass that is an option: of these names, or else of the field's name.

    ``text``: its help; ``attributes``: others of ``click.option`` than those that follow from the field.
    """
    return field(default=default, metadata={"names": names, "section": section, "help": text, **attributes})


class Part(NamedTuple):
    """Options of a dataclass."""

    kind: type[Any]
    names: Sequence[str]
    """Of their fields."""
    defaults: Mapping[str, Any]
    """Of a command that has others."""


def part_of(kind: type[Any], names: str = "", **defaults: Any) -> Part:
    """Return the options of these fields of a dataclass, by default of all."""
    return Part(kind, names.split() or [each.name for each in fields(kind) if each.metadata], defaults)


def takes(**parts: type[Any] | Part) -> Decorator:
    """Add the options of these dataclasses; the command gets an instance of each, by the parameter's name."""
    chosen = {name: part if isinstance(part, Part) else part_of(part) for name, part in parts.items()}
    added = {
        name: option_of(part.kind, name, part.defaults) for part in chosen.values() for name in part.names
    }

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_parts(*arguments: Any, **values: Any) -> Any:
            made = {
                parameter: part.kind(**{name: values[name] for name in part.names})
                for parameter, part in chosen.items()
            }
            others = {name: value for name, value in values.items() if name not in added}
            return command(*arguments, **made, **others)

        return options(*added.values())(with_parts)

    return decorated


def option_of(kind: type[Any], name: str, defaults: Mapping[str, Any] | None = None) -> Decorator:
    """Return the option of a dataclass's field."""
    [declaration] = [each for each in fields(kind) if each.name == name]
    attributes = dict(declaration.metadata)
    names = attributes.pop("names") or (f"--{name.replace('_', '-')}",)
    attributes = _of_type(get_type_hints(kind)[name]) | attributes
    if any("/" in each for each in names):
        attributes.pop("is_flag")
        attributes["default"] = None  # else click takes False for it
    if (default := (defaults or {}).get(name, declaration.default)) is not None:
        attributes |= {
            "default": default,
            "show_default": "is_flag" not in attributes and default not in ((), ""),
        }
    return option(*names, name, **attributes)


def _of_type(hint: Any) -> dict[str, Any]:
    """Return the attributes of ``click.option`` that follow from a field's type."""
    if get_origin(hint) in (Union, UnionType):
        [hint] = [each for each in get_args(hint) if each is not NoneType]
    if hint is bool:
        return {"is_flag": True}
    if get_origin(hint) is tuple:
        return {"multiple": True}
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    return {"type": click.Path(path_type=Path) if hint is Path else hint}


def options(*decorators: Decorator) -> Decorator:
    """Add all of these options, in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def _checked_workers(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != "auto" and not (value.isdecimal() and 1 <= int(value) <= MAX_WORKERS):
        raise click.BadParameter(f"must be auto or 1 to {MAX_WORKERS}, not {value}")
    return value


@dataclass(frozen=True)
class RunOptions:
    """How to run and what to report."""

    toxiproxy: str = declared("auto", "Other", "Use this Toxiproxy: auto, embedded, or a server's URL.")
    out: Path | None = declared(
        None, "Output", "Keep state/ and logs/ in this folder.  [default: . in a lab, else .wirefault]"
    )
    as_json: bool = declared(False, "Output", "Print one JSON object.", "--json")
    workers: str = declared(
        "1",
        "Limits",
        "Run this many episodes side by side; auto: one per processor where the wiring allows it.",
        callback=_checked_workers,
    )
    fail_on: FailOn | None = declared(  # None: it only shows
        "risky",
        "Output",
        "Exit with 1 if a finding is at least this severe; none: never because of a finding.",
    )
    # of an experiment
    filters: tuple[str, ...] = declared(
        (),
        "Other",
        "Select experiments by title or tag; * matches any part. Repeatable.",
        "--filter",
        metavar="PATTERN",
    )
    recursive: bool = declared(
        False, "Other", "Search folders below DIR, too; prompts and wiring files are skipped."
    )
    engine: Literal["local", "ray"] = declared(
        "local", "Other", "Run episodes on this machine, or on a Ray cluster."
    )
    retry_invalid: int = declared(
        0,
        "Limits",
        "Repeat episodes in which the lab failed, up to this often; both are reported.",
        type=click.IntRange(0, 100),
    )
    fail_fast: bool = declared(False, "Limits", "Stop after the first experiment that does not hold.")
    verbose: bool = declared(
        False, "Output", "Show all tables, and each arm's run as it happens.", "--verbose", "-v"
    )
    output: Path | None = declared(None, "Output", "Write what --json prints to this file.")
    tags: tuple[str, ...] = declared(
        (),
        "Output",
        "Add this tag to the recordings; wirefault runs trend --tag shows them over time. Repeatable.",
        "--tag",
        metavar="TAG",
    )
    junit: Path | None = declared(None, "Output", "Write the verdicts to this file as JUnit XML.")
    reports: Path | None = declared(
        None,
        "Output",
        "Write what a pipeline keeps into this folder: junit.xml, verdict.json, summary.md, a page and a"
        " bundle of each experiment.",
        metavar="FOLDER",
    )
    # of a wiring
    subject: str | None = declared(
        None,
        "Agent",
        "Test this agent: lab (the lab's own), a name from an installed package, or a function of a module,"
        " also of a module in this folder.  [default: the wiring's]",
        metavar="NAME|MODULE:FACTORY",
    )
    playbooks: Path | None = declared(
        None,
        "Agent",
        "Let the scripted model answer by this file's playbooks before the shipped ones. [PLAYBOOKS]",
    )
    charts: bool | None = declared(  # None: if they can be drawn
        None, "Output", "Draw the run's charts.", "--charts/--no-charts"
    )
    # no options
    changes: dict[str, Any] = field(default_factory=dict)  # to an experiment
    as_is: bool = False  # the subject has this process's input
    on_stderr: bool = False  # the console, since standard output is the subject's


def _only() -> Any:
    return declared(
        (),
        "Agent",
        "Send only the prompt with this id, or the ids that a pattern with * matches, or the Nth prompt; its"
        " faults and its number stay. Repeatable.",
        metavar="ID|N",
    )


@dataclass(frozen=True)
class PromptsOptions:
    """The prompts named on the command line: ``texts``, or all or some prompts of a file."""

    texts: tuple[str, ...] = declared(
        (), "Agent", "Send this prompt. Repeatable.", "--prompt", metavar="TEXT"
    )
    file: Path | None = declared(None, "Agent", "Send the prompts of this file. [PROMPTS_FILE]", "--prompts")
    only: tuple[str, ...] = _only()
    match: str = declared("", "Agent", "Send only prompts that contain TEXT.", metavar="TEXT")

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


@dataclass(frozen=True)
class InterceptOptions:
    """How the connections of a command are intercepted."""

    scripted: bool = declared(
        False, "Agent", "Let the scripted model answer for OpenAI, Anthropic, Gemini and the like."
    )
    tap: Literal["auto", "namespace", "proxy"] = declared(
        "auto",
        "Agent",
        "Intercept connections by a network namespace or by proxy variables; auto: by a namespace where"
        " possible.",
    )

    @property
    def intercept(self) -> dict[str, Any]:
        """As a wiring says it."""
        tap = {"tap": self.tap} if self.tap != "auto" else {}
        return tap | ({"models": "scripted"} if self.scripted else {})


@dataclass(frozen=True)
class ChangeOptions:
    """Changes that the command line makes to an experiment."""

    only: tuple[str, ...] = _only()
    repeats: int | None = declared(None, "Limits", "Run each prompt this often.  [default: the experiment's]")
    until_decided: bool = declared(
        False,
        "Limits",
        "Repeat the prompts until sequential tests decide the claims, or a limit is reached.",
    )
    max_episodes: int | None = declared(
        None,
        "Limits",
        "With --until-decided: the most episodes of an arm.  [1000]",
        type=click.IntRange(min=1),
    )
    max_time: str | None = declared(
        None, "Limits", "Begin no episode after this time, such as 10min.", metavar="TIME"
    )
    max_cost: float | None = declared(
        None,
        "Limits",
        "Begin no episode once this is spent; needs `prices`.",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
    )

    def changes(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return the changes, with these settings, by the experiment's keys. Raises ``InputError``."""
        if "faults" in settings:
            raise InputError(
                "--faults: an experiment names its faults in `method`; change them there, or run its wiring"
                " without a hypothesis: wirefault run WIRING --faults NAME"
            )
        if (seed := settings.get("seed")) is not None and not seed.lstrip("-").isdecimal():
            raise InputError(f"--seed {seed!r} is not a valid integer")
        limits = {"episodes": self.max_episodes, "time": self.max_time, "cost": self.max_cost}
        changes = {
            "seed": None if seed is None else int(seed),
            "repeats": self.repeats,
            "settings": {name: text for name, text in settings.items() if name != "seed"} or None,
            "only": list(self.only) or None,
            "until_decided": self.until_decided or None,
            "limits": {name: value for name, value in limits.items() if value is not None} or None,
        }
        return {key: value for key, value in changes.items() if value is not None}


recorded_out_option = option(
    "--out",
    type=click.Path(path_type=Path),
    help="Read logs/ of this folder, or of its .wirefault/.  [default: .]",
)
verbose_option = option(
    "--verbose", "-v", is_flag=True, help="Show all tables, and the state of the signature."
)
recorded_json_option = option("--json", "as_json", is_flag=True, help="Print one JSON object.")
out_option = option_of(RunOptions, "out")
toxiproxy_option = option_of(RunOptions, "toxiproxy")
fail_on_option = option_of(RunOptions, "fail_on")


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
            named = f" {word}" if word.lower().replace("-", "_") in options else ""  # else it may be a secret
            raise InputError(f"--set{named}: must be KEY=VALUE, such as --set model_timeout=10")
        name = key.lower().replace("-", "_")
        if name not in options:
            raise InputError(f"--set {key}: unknown key{nearest(name, options)}")
        each = options[name]
        taken[str(each.name)] = [*taken.get(str(each.name), []), value] if each.multiple else value
    context.default_map = taken
    return words


def _complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete ``--set``: each key with the values of a choice, or with a setting's default."""
    words = []
    for key, each in _keys(context).items():
        if key in SETTABLE:
            values = example_values(key)
        elif each.is_flag:
            values = "on", "off"
        else:
            values = tuple(item.value for item in each.type.shell_complete(context, each, ""))
        words += [f"{key}={value}" for value in values or ("",)]
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
        elif name not in (*except_, SET) and is_named(context, name):
            if isinstance(each, click.Option) and each.is_flag and isinstance(value, bool):
                named.append(max(each.opts if value else each.secondary_opts, key=len))
            else:
                named += [f"{max(each.opts, key=len)}={one}" for one in values]
    return [*context.command_path.split(), *arguments, *named]
