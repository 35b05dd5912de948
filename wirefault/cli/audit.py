"""``wirefault audit``: every question about every call of an agent, each fault certain."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from msgspec import structs
from rich.console import Console

from wirefault.audit.answers import Answer
from wirefault.audit.engine import Listener, run_audit
from wirefault.audit.experiment_file import Acceptance
from wirefault.audit.groups import finding_groups
from wirefault.audit.options import AuditOptions, WritesMode, latest_audit, load_options
from wirefault.audit.questions import QUESTIONS
from wirefault.audit.result import AuditResult
from wirefault.cli.help import CommandWithProgram
from wirefault.cli.init import KEPT, KEPT_WIRING, accept_option, check_free, keep_audit, today
from wirefault.cli.options import (
    InterceptOptions,
    RunOptions,
    declared,
    environ_below,
    logs_in,
    part_of,
    setting_options,
    takes,
)
from wirefault.cli.running import progress_on
from wirefault.core.errors import InputError, nearest
from wirefault.core.identity import new_run_id
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.plan import PLAIN_RUN, ExperimentPlan, PlannedArm
from wirefault.experiments.recorded import stored_recording
from wirefault.experiments.saved import load_saved, save
from wirefault.judging.ending import FailOn
from wirefault.judging.findings.finding import worst_finding
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.audit import print_answer, print_audit, print_calls, print_plan
from wirefault.report.audit_files import audit_as_json, audit_junit
from wirefault.report.next_command import command_on_run, print_resume
from wirefault.report.reproduce import EXEC_DEFAULTS
from wirefault.report.terminal import plain_console
from wirefault.settings.configuration import load_configuration
from wirefault.subjects.surroundings import program_problem
from wirefault.wiring.prompts import Prompt, load_prompts
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.subject_spec import PROMPT, CommandSpec, HttpSpec, ServiceSpec
from wirefault.wiring.wiring import Wiring, build_wiring, load_wiring

AUDIT, LATEST = "audit", "latest"
_OF_FAULTS = ("faults", "toxic_prob", "error_prob", "chaos_level", "fault_episodes", "fault_calls")


@dataclass(frozen=True)
class AuditChoices(InterceptOptions):
    """Questions, how they are asked, and files to write."""

    text: str | None = declared(
        None, "Agent", f"Replace {PROMPT} in COMMAND by this text.", "--prompt", metavar="TEXT"
    )
    ask: tuple[str, ...] = declared(
        (), "Faults", "Ask only this question. Repeatable. --list shows all.", metavar="QUESTION"
    )
    every: bool = declared(False, "Faults", "Ask all questions, not only the usual ones.", "--all")
    resume_command: str = declared(
        "",
        "Agent",
        "Kill the agent after its writes, too, and resume it by this command.",
        metavar="COMMAND",
    )
    listing: bool = declared(False, "Output", "List the questions and exit.", "--list")
    writes: tuple[str, ...] = declared(
        (),
        "Faults",
        "This call changes state, such as 'POST /search'. Repeatable.",
        "--write",
        metavar="CALL",
    )
    reads: tuple[str, ...] = declared(
        (), "Faults", "This call changes nothing. Repeatable.", "--read", metavar="CALL"
    )
    mode: WritesMode | None = declared(
        None,
        "Faults",
        "Carry out writes in runs with faults, or answer for the server.  [default: answer if one leaves"
        " this machine: loopback, .localhost and .test stay]",
        "--writes",
    )
    reset: str = declared(
        "",
        "Faults",
        "Run this shell command before each run, to put the world back; one run at a time.",
        metavar="COMMAND",
    )
    confirmed: bool = declared(
        False, "Faults", "With --writes real: carry them out beyond this machine, too.", "--yes"
    )
    replay: bool | None = declared(
        None,
        "Faults",
        "Replay the clean run's model replies up to the fault.  [default: if the model is not on this"
        " machine]",
        "--replay/--no-replay",
    )
    price: str | None = declared(
        None,
        "Limits",
        "US dollars per million tokens of input and output, for models without a price in PRICES.",
        metavar="'IN OUT'",
    )
    workers: int | None = declared(
        None,
        "Limits",
        "Run this many agents at once, waiting ones apart.  [default: one per processor]",
        type=click.IntRange(1, 64),
    )
    patience: float | None = declared(
        None,
        "Limits",
        "Seconds until the gateway ends a hang. [default: three times the clean run, 20 to 65]",
        type=click.FloatRange(5, 3600),
    )
    dry_run: bool = declared(False, "Other", "Make the clean runs, print the plan, and ask nothing.")
    junit: Path | None = declared(
        None, "Output", "Write a JUnit case per question to this file.", metavar="FILE"
    )
    keep: bool = declared(
        False,
        "Output",
        f"Write {KEPT}: an experiment with these faults, which fails while a HARM or RISK is left.",
    )
    resume: str | None = declared(
        None,
        "Other",
        "Continue this audit; its complete runs are kept. latest: the newest but for dry runs.",
        metavar="ID",
    )
    json_file: Path | None = declared(
        None, "Output", "Write the answers as one JSON object to this file.", "--json", metavar="FILE"
    )

    def options(self, questions: tuple[str, ...]) -> AuditOptions:
        """Return how to ask these questions. Raises ``InputError``."""
        return AuditOptions(
            questions,
            self.writes,
            self.reads,
            self.workers or os.cpu_count() or 2,
            self.patience or 0.0,
            dry_run=self.dry_run,
            mode=self.mode,
            reset=self.reset,
            confirmed=self.confirmed,
            replay=self.replay,
            price=_price(self.price) if self.price else None,
        )


@click.command(
    AUDIT,
    cls=CommandWithProgram,
    brief=(
        "text",
        "scripted",
        "ask",
        "every",
        "mode",
        "workers",
        "patience",
        "dry_run",
        "json_file",
        "out",
    ),
    examples=(
        'wirefault audit -- python my_agent.py "Refund order 17"',
        "wirefault audit --scripted --dry-run -- ./my-agent",
    ),
)
@takes(own=AuditChoices, how=part_of(RunOptions, "fail_on out toxiproxy"))
@accept_option
@setting_options
@click.argument("wiring_file", required=False, type=click.Path(path_type=Path))
def audit_command(
    program: tuple[str, ...],
    wiring_file: Path | None,
    own: AuditChoices,
    how: RunOptions,
    accept: tuple[str, ...],
    settings: Mapping[str, str],
) -> None:
    """Ask what an agent does when each of its calls fails, and report what harms.

    COMMAND, after --, runs twice without faults. Then each question makes one fault certain at one call, and
    the run is compared with the clean ones. A wiring (WIRING_FILE) replaces the command. Exit codes: 0
    nothing found, 1 a finding (see --fail-on), 2 nothing could be asked or an answer is unknown.
    """
    if own.listing:
        _list_questions()
        return
    for name, file in (("--json", own.json_file), ("--junit", own.junit)):
        if file is not None and not file.absolute().parent.is_dir():
            raise InputError(f"{name} {file}: no such folder")
    accepted = Acceptance.read(accept, today())
    if accept and not own.keep:
        raise InputError("--accept: needs --keep, whose experiment it is for")
    if own.keep:
        check_free("--keep", KEPT, KEPT_WIRING)
    environ = environ_below(how.out)
    if own.resume is not None:
        if program or wiring_file is not None:
            raise InputError("--resume: the audit has its command already: leave it out")
        if settings:
            raise InputError("--resume: the audit has its settings already: leave them out")
        logs = logs_in(environ)
        saved = load_saved(logs, (own.resume == LATEST and latest_audit(logs)) or own.resume, environ)
        saved.require_own_plan("--resume", with_code=True)
        options = load_options(saved)
        options = structs.replace(
            options, workers=own.workers or options.workers, dry_run=own.dry_run, reset=own.reset
        )
        options.save(saved)  # a dry run becomes an audit
        saved.forget_end()
    else:
        wiring, prompt = _wiring(program, wiring_file, own)
        wiring = _with_resume(wiring, own.resume_command)
        options = own.options(_questions(own.ask, every=own.every, resumable=_has_resume(wiring)))
        title = f"audit of {shlex.join(program) or wiring_file}"
        saved = save(
            _plan(title, wiring, prompt, settings, environ, from_file=wiring_file is not None), new_run_id()
        )
        options.save(saved)
        print_to_stderr("2 clean runs of the command first; they are real, as without Wirefault")
    choice = choose_toxiproxy(how.toxiproxy, saved.plan.configuration.environ)
    console = plain_console(stderr=True)
    with progress_on(console) as progress:
        listener = _Console(console, listed=own.dry_run)
        result = run_audit(saved, options, choice, print_to_stderr, listener, progress=progress)
    fail_on = how.fail_on or "none"
    code = _show(result, options, own.json_file, fail_on)
    if own.junit is not None:
        own.junit.write_text(audit_junit(result, fail_on), encoding="utf-8")
    if own.keep and result.answers:
        try:
            keep_audit(result, accepted)
        except InputError as error:  # the audit's own exit code says what it found
            print_to_stderr(f"--keep: {error}")
    sys.exit(code)


def _price(text: str) -> tuple[float, float]:
    """Read ``--price``. Raises ``InputError``."""
    try:
        amounts = [float(word) for word in text.split()]
    except ValueError:
        amounts = []
    if len(amounts) != 2 or not all(math.isfinite(each) and each >= 0 for each in amounts):
        raise InputError(f"--price {text!r}: must be two amounts in US dollars, such as '2.5 10'")
    return amounts[0], amounts[1]


def _plan(
    title: str,
    wiring: Wiring,
    prompt: Prompt,
    settings: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    from_file: bool,
) -> ExperimentPlan:
    if faulting := [name for name in _OF_FAULTS if name in settings]:
        raise InputError(f"--set {faulting[0]}: an audit has a fault for each question; choose them by --ask")
    decided = {**EXEC_DEFAULTS, **settings}
    configuration = load_configuration(environ, decided, wiring, from_surroundings=from_file)
    arm = PlannedArm(PLAIN_RUN, configuration.settings, ())
    return ExperimentPlan(Experiment.model_construct(title=title), configuration, (prompt,), (arm,))


def _show(result: AuditResult, how: AuditOptions, json_file: Path | None, fail_on: FailOn) -> int:
    """Keep the result, show it, and return the exit code."""
    document = audit_as_json(result)
    if result.clean is not None:
        result.saved.write_plan()  # with the questions that an interrupted one asked
    if result.clean is not None and not result.code:
        worst = worst_finding(group.worst for group in finding_groups(result.answers))
        result.saved.write_verdict(document, worst)
    if result.clean and result.answers:
        from wirefault.report.page.write import page_line  # the template engine is slow to import

        init = command_on_run(["wirefault", "init", result.saved.experiment_id], [], result.saved.logs)
        environ = result.saved.plan.configuration.environ
        stored = stored_recording(result.saved)
        page = page_line(result.saved.logs, result.saved.experiment_id, environ, stored)
        print_audit(plain_console(stderr=False), result, document["not_asked"], [f"keep: {init}", page])
    if result.code and result.saved.run_ids(result.saved.plan.arms[0]):
        print_resume(plain_console(stderr=True), result.saved)
    if json_file is not None:
        json_file.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
    return result.ending(fail_on, dry_run=how.dry_run)


class _Console(Listener):
    def __init__(self, console: Console, *, listed: bool) -> None:
        self._console, self._listed = console, listed

    def learned(self, result: AuditResult) -> None:
        print_calls(self._console, result)
        if result.problem:
            print_to_stderr(f"error: {result.problem}")
        elif result.asks:
            print_plan(self._console, result, listed=self._listed)

    def answered(self, answer: Answer) -> None:
        print_answer(self._console, answer)


def _list_questions() -> None:
    for question in QUESTIONS.values():
        mark = "*" if question.default else " "
        click.echo(f"{mark} {question.name:<24} {question.about:<6} {question.sentence}")
    click.echo("\n* is asked without --all")


def _has_resume(wiring: Wiring) -> bool:
    """Whether the wiring has a command that resumes its agent."""
    resumable = CommandSpec | ServiceSpec | HttpSpec
    return isinstance(wiring.subject, resumable) and wiring.subject.resume is not None


def _with_resume(wiring: Wiring, command: str) -> Wiring:
    """Add the command of ``--resume-command``. Raises ``InputError``."""
    if not command:
        return wiring
    if not isinstance(wiring.subject, CommandSpec | ServiceSpec | HttpSpec):
        raise InputError("--resume-command: the wiring's subject must be a `command`, `service` or `http`")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--resume-command {command!r}: {error}") from None
    # a run reads the wiring's data
    data = {**wiring.data, "subject": {**wiring.data["subject"], "resume": words or None}}
    built = build_wiring(SpecFile(wiring.file, data), wiring.folder)
    return replace(built, arguments=wiring.arguments)


def _questions(names: Sequence[str], *, every: bool, resumable: bool) -> tuple[str, ...]:
    for name in names:
        if name not in QUESTIONS:
            raise InputError(f"--ask {name}: unknown question{nearest(name, QUESTIONS)}; --list shows all")
    if names:
        return tuple(name for name in QUESTIONS if name in names)
    return tuple(q.name for q in QUESTIONS.values() if (resumable if q.needs_resume else q.default or every))


def _wiring(program: tuple[str, ...], file: Path | None, own: AuditChoices) -> tuple[Wiring, Prompt]:
    text = own.text
    if bool(program) == (file is not None):
        raise InputError("name a command after --, or a wiring file")
    if file is not None:
        wiring = load_wiring(file)
        if wiring.subject is None:
            raise InputError(f"{file}: missing subject: an audit needs the agent to run")
        texts = [Prompt("clean", text)] if text else []
        if not texts and wiring.prompts is not None:
            texts = [replace(load_prompts(wiring.prompts).entries[0], key="clean", expect=None)]
        if not texts:
            raise InputError(f"{file}: missing prompts: name a file there, or give --prompt TEXT")
        return replace(wiring, arguments=(AUDIT, "--", str(file))), texts[0]
    if program[0] and (problem := program_problem(program[0], Path(), os.environ)):
        raise InputError(problem)
    in_command = any(PROMPT in word for word in program)
    way = {} if in_command else {"prompt": "stdin" if text else "none"}
    subject = {"command": list(program), "folder": ".", **way}
    wiring = build_wiring(
        SpecFile("wirefault audit", {"intercept": own.intercept, "subject": subject}), Path()
    )
    if in_command and not text:
        raise InputError(f"{PROMPT} in the command: give --prompt TEXT")
    return replace(wiring, arguments=(AUDIT, "--", *program)), Prompt("clean", text or shlex.join(program))
