"""``wirefault exec``: a command as it is, whatever it calls, with faults on the way."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from wirefault.cli.run_in_lab import Flown, RunOptions, run_in_own_lab
from wirefault.cli.run_options import PromptsOptions, lab_options, setting_options
from wirefault.core.errors import DEVIATED, UNKNOWN, InputError
from wirefault.history.events import AttemptEnded, ConnectionEnded, Event, RunStarted
from wirefault.history.reader import read_history
from wirefault.judging.calls import calls_by_link
from wirefault.judging.findings.leaks import PAST_THE_LAB
from wirefault.judging.summary import summarise
from wirefault.report.calls import calls_table
from wirefault.report.reproduce import EXEC
from wirefault.report.terminal import plain_console
from wirefault.subjects.surroundings import program_problem
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.subject_spec import PROMPT, CommandSpec
from wirefault.wiring.wiring import Wiring, build_wiring, recorded_wiring

_TAPS = click.Choice(["auto", "namespace", "proxy"])
# The lab's own chances would strike besides the faults that are asked for, and its own agent needs less time.
_UNLESS_ASKED = {"toxic_prob": "0", "error_prob": "0", "model": "scripted", "attempt_time": "600"}


@click.command("exec")
@click.option(
    "--tap",
    type=_TAPS,
    default="auto",
    show_default=True,
    help="how connections are caught; auto: a network namespace where there are any, else proxy variables",
)
@click.option("--only", metavar="HOST", multiple=True, help="intercept this host; all others pass untouched")
@click.option("--pass", "passed", metavar="HOST", multiple=True, help="let this host pass untouched")
@click.option("--refuse", metavar="HOST", multiple=True, help="let this host be out of reach")
@click.option("--offline", is_flag=True, help="dial nothing but this machine and what is wired")
@click.option(
    "--scripted",
    is_flag=True,
    help="the scripted model answers for OpenAI, Anthropic, Gemini and the like",
)
@click.option(
    "--record", type=click.Path(path_type=Path), help="write the wiring that was found: for wirefault fly"
)
@click.option(
    "--prompt",
    "texts",
    metavar="TEXT",
    multiple=True,
    help=f"run it for this prompt: {PROMPT} in COMMAND, or its standard input",
)
@click.option("--prompts", "file", type=click.Path(path_type=Path), help="run it for each prompt of the file")
@setting_options
@partial(lab_options, charts=False)
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
    as_json: bool,
    **settings: str | None,
) -> None:
    """Run a command unchanged, break what it calls, and tell what it did about it.

    COMMAND, after --, is run once, or once for each prompt. It needs no change and no variable: whatever it
    calls is found. Its standard input is the prompt, unless {prompt} stands in COMMAND, and is else empty.
    Exit codes: 0 nothing to tell, 1 findings or a command that failed, 2 no fault was met.
    """
    if record is not None and record.exists():
        raise InputError(f"--record {record}: there is such a file; name another, or remove it")
    if record is not None and not record.absolute().parent.is_dir():
        raise InputError(f"--record {record}: there is no such folder")
    if command[0] and (problem := program_problem(command[0], Path(), os.environ)):
        raise InputError(problem)
    asks = bool(texts or file)
    intercept: dict[str, Any] = {"tap": tap, "offline": offline, "models": "scripted" if scripted else "own"}
    intercept |= {"only": list(only), "pass": list(passed), "refuse": list(refuse)}
    intercept = {key: value for key, value in intercept.items() if value not in (False, [], "auto", "own")}
    wiring = _wiring(intercept, command, asks=asks)
    words = [f"--{key}={host}" for key in ("only", "pass", "refuse") for host in intercept.get(key, ())]
    words += [f"--tap={tap}"] if tap != "auto" else []
    words += [flag for flag, on in (("--offline", offline), ("--scripted", scripted)) if on]
    words += [f"--prompt={text}" for text in texts] + ([f"--prompts={file}"] if file else [])
    wiring = replace(wiring, said=(EXEC, *words, "--", *command))
    prompts = PromptsOptions(file, texts if asks else (shlex.join(command),), (), "")
    unless_asked = {name: value for name, value in _UNLESS_ASKED.items() if settings.get(name) is None}
    options = RunOptions(None, toxiproxy, out, charts, as_json)
    flown = run_in_own_lab(wiring, prompts, {**settings, **unless_asked}, options)
    sys.exit(_tell(flown, wiring, intercept, record))


def _wiring(intercept: dict[str, Any], command: Sequence[str], *, asks: bool) -> Wiring:
    in_words = any(PROMPT in word for word in command)
    prompt = {} if in_words else {"prompt": "stdin" if asks else "none"}
    subject = {"command": list(command), "folder": ".", "show": True, **prompt}
    return build_wiring(SpecFile("wirefault exec", {"intercept": intercept, "subject": subject}), Path())


def _tell(flown: Flown, wiring: Wiring, intercept: dict[str, Any], record: Path | None) -> int:
    """Shows what was called, writes the wiring that was found, and returns the exit code."""
    if not (flown.logs / "runs" / flown.run_id).exists():
        return flown.code
    events = read_history(flown.logs, flown.run_id).events()
    rows = calls_by_link(events)
    summary = summarise(events)
    missed = dict.fromkeys(e.not_intercepted for e in events if isinstance(e, ConnectionEnded) and e.why)
    missed |= dict.fromkeys(f"it went past the lab: {past.text}" for past in summary.went_past)
    armed = any(summary.settings.get(name) for name in ("faults", "toxic_prob", "error_prob"))
    met = any(fault.met is None or fault.met > 0 for fault in summary.faults)
    plain_console(stderr=True).print(calls_table(rows, missed, nothing_met=armed and not met))
    if record is not None:
        assert isinstance(wiring.subject, CommandSpec)
        _write_wiring(record, events, intercept, wiring.subject)
    if flown.code:
        return flown.code
    of_subject = [finding for finding in summary.findings if finding.rule != PAST_THE_LAB.name]
    if of_subject or any(map(_failed_by_itself, events)):
        return DEVIATED
    if armed and not met:
        return UNKNOWN
    return DEVIATED if summary.findings else 0


def _failed_by_itself(event: Event) -> bool:
    """Whether it is the end of an attempt that the command, and not the lab, failed in."""
    return isinstance(event, AttemptEnded) and event.ended_by == "exception" and event.error_class != "none"


def _write_wiring(
    path: Path, events: Sequence[Event], intercept: dict[str, Any], command: CommandSpec
) -> None:
    started = next(event for event in events if isinstance(event, RunStarted))
    folder = os.path.relpath(Path.cwd(), path.absolute().parent)
    try:
        text = recorded_wiring(started.wired, intercept, command.model_copy(update={"folder": folder}))
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--record {path}: {error.strerror}") from None
    click.echo(f"the wiring that was found: {path}", err=True)
