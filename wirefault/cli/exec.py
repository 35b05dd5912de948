"""``wirefault exec``: any command, unchanged, with faults on the links that it uses."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from wirefault.cli.help import Command, option
from wirefault.cli.options import (
    PromptsOptions,
    RunOptions,
    charts_option,
    fail_on_option,
    options,
    out_option,
    playbooks_option,
    setting_options,
    toxiproxy_option,
)
from wirefault.cli.own_lab import CompletedRun, run_in_own_lab
from wirefault.cli.results import show_page, show_resume
from wirefault.core.errors import InputError
from wirefault.core.redaction import SECRET, Redaction
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
from wirefault.judging.ending import FailOn
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

_TAPS = click.Choice(["auto", "namespace", "proxy"])
_PATH = click.Path(path_type=Path)


@click.command(
    "exec",
    cls=Command,
    brief=("texts", "file", "faults", "seed", "scripted", "passed", "offline", "record", "json_file", "out"),
    examples=(
        "wirefault exec --faults lost-replies -- python my_agent.py",
        'wirefault exec --scripted --prompt "Order two mugs" -- ./my-agent {prompt}',
    ),
)
@options(
    option(
        "--prompt",
        "texts",
        metavar="TEXT",
        multiple=True,
        section="Agent",
        help=f"Run it for this prompt: {PROMPT} in COMMAND, or its standard input. Repeatable.",
    ),
    option("--prompts", "file", type=_PATH, section="Agent", help="Run it for each prompt of this file."),
    option(
        "--scripted",
        is_flag=True,
        section="Agent",
        help="Let the scripted model answer for OpenAI, Anthropic, Gemini and the like.",
    ),
    option(
        "--tap",
        type=_TAPS,
        default="auto",
        show_default=True,
        section="Agent",
        help="Intercept connections by a network namespace or by proxy variables; auto: by a namespace where"
        " possible.",
    ),
    option(
        "--only", metavar="HOST", multiple=True, section="Agent", help="Intercept only this host. Repeatable."
    ),
    option(
        "--pass",
        "passed",
        metavar="HOST",
        multiple=True,
        section="Agent",
        help="Never intercept this host. Repeatable.",
    ),
    option("--refuse", metavar="HOST", multiple=True, section="Agent", help="Refuse this host. Repeatable."),
    option(
        "--offline",
        is_flag=True,
        section="Agent",
        help="Allow connections only to this machine and wired links.",
    ),
    playbooks_option,
    setting_options,
    option(
        "--record",
        type=_PATH,
        section="Output",
        help="Write the observed wiring to this file, for wirefault run.",
    ),
    out_option,
    charts_option(False),
    fail_on_option,
    option(
        "--json",
        "json_file",
        type=_PATH,
        metavar="FILE",
        section="Output",
        help="Write the summary as one JSON object to this file.",
    ),
    toxiproxy_option,
)
@click.argument("command", nargs=-1, required=True)
def exec_command(
    tap: str,
    only: tuple[str, ...],
    passed: tuple[str, ...],
    refuse: tuple[str, ...],
    offline: bool,
    scripted: bool,
    record: Path | None,
    texts: tuple[str, ...],
    file: Path | None,
    command: tuple[str, ...],
    toxiproxy: str,
    out: Path | None,
    charts: bool,
    playbooks: Path | None,
    json_file: Path | None,
    fail_on: FailOn,
    settings: Mapping[str, str],
) -> None:
    """Run a command unchanged, break the links it uses, and show what it did about it.

    COMMAND, after --, runs once, or once per prompt. It needs no changes or variables: the servers that it
    calls are detected. It has its usual input, output and terminal; the report is on standard error. A
    prompt replaces {prompt} in COMMAND, or else is its standard input. Exit codes: 0 nothing found, 1 a
    finding (see --fail-on), 2 no fault is known to have been injected. COMMAND's own exit code is shown; it
    is not a finding.
    """
    if record is not None and record.exists():
        raise InputError(f"--record {record}: already exists; name another file, or remove it")
    for name, file_to_write in (("--record", record), ("--json", json_file)):
        if file_to_write is not None and str(file_to_write).startswith("-"):
            raise InputError(f"{name}: needs a file, not {str(file_to_write)!r}")
        if file_to_write is not None and not file_to_write.absolute().parent.is_dir():
            raise InputError(f"{name} {file_to_write}: no such folder")
    if command[0] and (problem := program_problem(command[0], Path(), os.environ)):
        raise InputError(problem)
    has_prompts = bool(texts or file)
    intercept: dict[str, Any] = {"tap": tap, "offline": offline, "models": "scripted" if scripted else "own"}
    intercept |= {"only": list(only), "pass": list(passed), "refuse": list(refuse)}
    intercept = {key: value for key, value in intercept.items() if value not in (False, [], "auto", "own")}
    wiring = _wiring(intercept, command, has_prompts=has_prompts)
    words = [f"--{key}={host}" for key in ("only", "pass", "refuse") for host in intercept.get(key, ())]
    words += [f"--tap={tap}"] if tap != "auto" else []
    words += [flag for flag, on in (("--offline", offline), ("--scripted", scripted)) if on]
    words += [f"--prompt={text}" for text in texts] + ([f"--prompts={file}"] if file else [])
    wiring = replace(wiring, arguments=(EXEC, *words, "--", *command))
    prompts = PromptsOptions(file, texts if has_prompts else (shlex.join(command),), (), "")
    alone = file is None and len(texts) < 2
    how = RunOptions(
        toxiproxy=toxiproxy,
        out=out,
        as_is=alone,
        on_stderr=True,
        charts=charts,
        playbooks=playbooks,
        fail_on=fail_on,
    )
    completed = run_in_own_lab(wiring, prompts, {**EXEC_DEFAULTS, **settings}, how)
    sys.exit(_show(completed, wiring, intercept, record, json_file, prompts if has_prompts else None))


def _wiring(intercept: dict[str, Any], command: Sequence[str], *, has_prompts: bool) -> Wiring:
    in_command = any(PROMPT in word for word in command)
    prompt = {} if in_command else {"prompt": "stdin" if has_prompts else "none"}
    subject = {"command": list(command), "folder": ".", "show": "as-is", **prompt}
    return build_wiring(SpecFile("wirefault exec", {"intercept": intercept, "subject": subject}), Path())


def _show(
    completed: CompletedRun,
    wiring: Wiring,
    intercept: dict[str, Any],
    record: Path | None,
    json_file: Path | None,
    prompts: PromptsOptions | None,
) -> int:
    """Show the servers called, write the observed wiring, and return the exit code."""
    if (arm := completed.arm) is None:
        if completed.recording is None:
            show_page(completed.saved)  # its line says why nothing can be shown
            show_resume(plain_console(stderr=True), completed.saved)
        return completed.code
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
    if json_file is not None:
        _write(json_file, "--json", json.dumps(summary.as_json(), ensure_ascii=False) + "\n")
    if record is not None:
        assert isinstance(wiring.subject, CommandSpec)
        _write_wiring(record, events, intercept, wiring.subject, prompts)
    show_page(completed.saved, completed.recording)
    print_why(plain_console(stderr=True), summary, arm.logs)
    show_resume(plain_console(stderr=True), completed.saved)
    return completed.code


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
