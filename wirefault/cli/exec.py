"""``wirefault exec``: any command, unchanged, with faults on the links that it uses."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from wirefault.cli.help import Command
from wirefault.cli.options import (
    InterceptOptions,
    PromptsOptions,
    RunOptions,
    declared,
    part_of,
    setting_options,
    takes,
)
from wirefault.cli.own_lab import run_in_own_lab
from wirefault.cli.results import show_page, show_resume
from wirefault.core.errors import InputError
from wirefault.core.redaction import SECRET, Redaction
from wirefault.experiments.recorded import Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.events import (
    EXIT_CODE,
    AttemptEnded,
    ConnectionEnded,
    Event,
    Exchange,
    InterceptionFailed,
    PipeServer,
    RunStarted,
)
from wirefault.judging.account import nothing_known
from wirefault.judging.usage import LinkCalls, calls_by_link
from wirefault.report.next_command import print_why
from wirefault.report.reproduce import EXEC, EXEC_DEFAULTS
from wirefault.report.tables import new_table, one_line
from wirefault.report.terminal import plain_console
from wirefault.subjects.surroundings import program_problem
from wirefault.wiring.links import Links
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.subject_spec import PROMPT, CommandSpec
from wirefault.wiring.wiring import Wiring, build_wiring, recorded_wiring


@dataclass(frozen=True)
class ExecChoices(InterceptOptions):
    """Connections to intercept, and files to write."""

    only: tuple[str, ...] = declared((), "Agent", "Intercept only this host. Repeatable.", metavar="HOST")
    passed: tuple[str, ...] = declared(
        (), "Agent", "Never intercept this host. Repeatable.", "--pass", metavar="HOST"
    )
    refuse: tuple[str, ...] = declared((), "Agent", "Refuse this host. Repeatable.", metavar="HOST")
    offline: bool = declared(False, "Agent", "Allow connections only to this machine and wired links.")
    record: Path | None = declared(
        None, "Output", "Write the observed wiring to this file, for wirefault run."
    )
    json_file: Path | None = declared(
        None, "Output", "Write the summary as one JSON object to this file.", "--json", metavar="FILE"
    )

    @property
    def intercept(self) -> dict[str, Any]:
        hosts = {"only": self.only, "pass": self.passed, "refuse": self.refuse}
        offline = {"offline": True} if self.offline else {}
        return super().intercept | offline | {key: list(each) for key, each in hosts.items() if each}

    @property
    def words(self) -> list[str]:
        """Of the command line that gives ``intercept`` again."""
        words = [
            f"--{key}={host}" for key in ("only", "pass", "refuse") for host in self.intercept.get(key, ())
        ]
        words += [f"--tap={self.tap}"] if self.tap != "auto" else []
        return words + [
            flag for flag, on in (("--offline", self.offline), ("--scripted", self.scripted)) if on
        ]

    def check_files(self) -> None:
        """Raise ``InputError`` for files that cannot be written."""
        if self.record is not None and self.record.exists():
            raise InputError(f"--record {self.record}: already exists; name another file, or remove it")
        for name, file in (("--record", self.record), ("--json", self.json_file)):
            if file is not None and str(file).startswith("-"):
                raise InputError(f"{name}: needs a file, not {str(file)!r}")
            if file is not None and not file.absolute().parent.is_dir():
                raise InputError(f"{name} {file}: no such folder")


@click.command(
    "exec",
    cls=Command,
    brief=("texts", "file", "faults", "seed", "scripted", "passed", "offline", "record", "json_file", "out"),
    examples=(
        "wirefault exec --faults lost-replies -- python my_agent.py",
        'wirefault exec --scripted --prompt "Order two mugs" -- ./my-agent {prompt}',
    ),
)
@takes(
    prompts=part_of(PromptsOptions, "texts file"),
    own=ExecChoices,
    how=part_of(RunOptions, "playbooks out charts fail_on verbose toxiproxy", charts=False),
)
@setting_options
@click.argument("command", nargs=-1, required=True)
def exec_command(
    command: tuple[str, ...],
    prompts: PromptsOptions,
    own: ExecChoices,
    how: RunOptions,
    settings: Mapping[str, str],
) -> None:
    """Run a command unchanged, break the links it uses, and show what it did about it.

    COMMAND, after --, runs once, or once per prompt. It needs no changes or variables: the servers that it
    calls are detected. It has its usual input, output and terminal; the report is on standard error. A
    prompt replaces {prompt} in COMMAND, or else is its standard input. Exit codes: 0 nothing found, 1 a
    finding (see --fail-on), 2 none of its faults is known to have been injected. COMMAND's own exit code is
    shown; it is not a finding.
    """
    own.check_files()
    if command[0] and (problem := program_problem(command[0], Path(), os.environ)):
        raise InputError(problem)
    texts, file = prompts.texts, prompts.file
    named = prompts if texts or file else None
    wiring = _wiring(own.intercept, command, has_prompts=named is not None)
    words = own.words + [f"--prompt={text}" for text in texts] + ([f"--prompts={file}"] if file else [])
    wiring = replace(wiring, arguments=(EXEC, *words, "--", *command))
    how = replace(how, as_is=file is None and len(texts) < 2, on_stderr=True)
    result, recording = run_in_own_lab(
        wiring, named or PromptsOptions((shlex.join(command),)), {**EXEC_DEFAULTS, **settings}, how
    )
    _show(result.saved, recording, wiring, own, named)
    sys.exit(result.code)


def _wiring(intercept: dict[str, Any], command: Sequence[str], *, has_prompts: bool) -> Wiring:
    in_command = any(PROMPT in word for word in command)
    prompt = {} if in_command else {"prompt": "stdin" if has_prompts else "none"}
    subject = {"command": list(command), "folder": ".", "show": "as-is", **prompt}
    return build_wiring(SpecFile("wirefault exec", {"intercept": intercept, "subject": subject}), Path())


def _show(
    saved: SavedExperiment,
    recording: Recording | None,
    wiring: Wiring,
    own: ExecChoices,
    prompts: PromptsOptions | None,
) -> None:
    """Show the servers called, and write the observed wiring."""
    if recording is None:
        show_page(saved)  # its line says why nothing can be shown
        show_resume(plain_console(stderr=True), saved)
        return
    if (arm := recording.default_arm) is None:
        return
    summary, events = arm.summary, arm.events
    rows = calls_by_link(events)
    missed = dict.fromkeys(e.not_intercepted for e in events if isinstance(e, ConnectionEnded) and e.why)
    reasons = " ".join(episode.why for episode in summary.episodes)
    failures = [event for event in events if isinstance(event, InterceptionFailed)]
    missed |= dict.fromkeys(e.text for e in failures if e.why != "closed_at_certificate" or e.text in reasons)
    # the ingress's are among the connections that ended
    missed |= dict.fromkeys(past.sentence for past in summary.went_past if past.link or past.sent is None)
    missed |= dict.fromkeys(f"past the lab: {each.text}" for each in events if isinstance(each, PipeServer))
    missed |= dict.fromkeys(_exits(events))
    hint = _MORE_FAULTS if rows and nothing_known(summary.faults, summary.settings) else ""
    plain_console(stderr=True).print(_calls_table(rows, missed, hint))
    if own.json_file is not None:
        _write(own.json_file, "--json", json.dumps(summary.as_json(), ensure_ascii=False) + "\n")
    if own.record is not None:
        assert isinstance(wiring.subject, CommandSpec)
        _write_wiring(own.record, events, own.intercept, wiring.subject, prompts)
    show_page(saved, recording)
    print_why(plain_console(stderr=True), summary, arm.logs)
    show_resume(plain_console(stderr=True), saved)


def _exits(events: Iterable[Event]) -> Iterator[str]:
    """Yield how the command ended where it failed: a fact, not a finding."""
    for event in events:
        if isinstance(event, AttemptEnded) and event.error_type == EXIT_CODE:
            yield f"the command {(event.error or 'it failed').partition(':')[0].removeprefix('it ')}"


def _write_wiring(
    path: Path,
    events: Sequence[Event],
    intercept: dict[str, Any],
    command: CommandSpec,
    prompts: PromptsOptions | None,
) -> None:
    started = next(event for event in events if isinstance(event, RunStarted))
    here = path.absolute().parent
    command = command.model_copy(update={"folder": os.path.relpath(Path.cwd(), here), "show": True})
    redaction = Redaction(os.environ)
    public = command.model_copy(update={"command": redaction.words(command.command)})
    texts = tuple(map(redaction.text, prompts.texts)) if prompts else ()
    file = os.path.relpath(prompts.file, here) if prompts and prompts.file else ""
    _write(path, "--record", recorded_wiring(started.wired, intercept, public, prompts=file, texts=texts))
    click.echo(f"the observed wiring: {path}", err=True)
    for name in sorted(_mixed_links(started.wired, events)):
        click.echo(
            f"{path}: links.{name}: it carries model requests and other calls; a wiring treats all of them as"
            " model requests, so its writes are not counted",
            err=True,
        )
    if public.command != command.command:
        click.echo(f"{path}: subject.command: replace each {SECRET} before you run it", err=True)


def _mixed_links(links: Links, events: Iterable[Event]) -> set[str]:
    """Return the found links on which some requests asked a model, and others may have changed something."""
    exchanges = (event for event in events if isinstance(event, Exchange))
    return {e.link for e in exchanges if links[e.link].recognised and not (e.of_model or e.method == "GET")}


def _write(path: Path, option_name: str, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option_name} {path}: {error.strerror}") from None


_MORE_FAULTS = "try another --seed, or make each fault certain: wirefault audit -- COMMAND"


def _calls_table(rows: Sequence[LinkCalls], remarks: Iterable[str], hint: str) -> RenderableType:
    """Build the table of servers called. ``hint``: what to do if no fault was injected."""
    warning = [Text(one_line(sentence), style="yellow") for sentence in remarks]
    warning += [Text(hint, style="bold yellow")] if hint else []
    if not rows:
        return Group(Text("no calls: the lab saw no calls to any server", style="bold"), *warning)
    table = new_table("link", "server", "requests", "faults, and what it did", text_columns=(0, 1, 3))
    table.columns[3].no_wrap = False
    for row in rows:
        server = one_line(row.server) + (" (MCP)" if row.is_mcp else "")
        table.add_row(Text(row.link), Text(server), str(row.requests), Text(_story(row)))
    return Group(table, *warning)


def _story(row: LinkCalls) -> str:
    parts = [_counts(row.faults)] if row.faults else []
    parts += [f"toxics: {_counts(row.toxics)}"] if row.toxics else []
    if row.cut:  # without a sign of a failure, a client may have left a slow reply all the same
        of = f"of {row.connections} connections" if row.connections > 1 else "of 1 connection"
        parts.append(f"{row.cut} {of} failed, {row.reconnected} followed by another")
    if row.failed:
        again = f"{row.retried} of {row.failed} failed requests were sent again"
        parts.append(f"{again}, {row.recovered} got through" if row.retried else f"{again}")
    return "; ".join(parts) or "-"


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{kind} x{count}" if count > 1 else kind for kind, count in kinds.items())
