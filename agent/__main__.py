"""``python -m agent``: sends the prompts through the lab and tells what happened. Exit code 0, 1 or 2."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from agent.ending import end_once
from agent.keys import api_key, redactor
from windtunnel.history.events import SELF_TEST, Level
from windtunnel.history.logs import log_error
from windtunnel.judging.prompts import Prompts, PromptsError, load_prompts
from windtunnel.judging.summary import summarise
from windtunnel.report.audience import ConsoleAudience
from windtunnel.report.console import plain_console, print_summary
from windtunnel.report.reproduce import command
from windtunnel.runner import Places, Runner, new_run_id
from windtunnel.runner.control import Control
from windtunnel.runner.translator import decide_backend
from windtunnel.settings.configuration import Configuration, load_configuration
from windtunnel.settings.settings import Settings, SettingsError
from windtunnel.state.state import State
from windtunnel.subjects.subject import Subject

USAGE_ERROR, RUN_FAILED = 2, 1


@click.command()
@click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file")
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
def main(prompts: Path | None, as_json: bool) -> None:
    """Runs the prompts of PROMPTS_FILE once each, under the lab's faults."""
    # with --json the standard output is the object's alone
    console = plain_console(stderr=as_json)
    logs = Path(os.environ.get("LOGS_DIR") or "logs")
    try:
        configuration = load_configuration(os.environ)
        logs = configuration.logs
        configuration = replace(configuration, prompts=prompts or configuration.prompts)
        loaded = load_prompts(configuration.prompts)
        key = api_key(configuration.settings, configuration.environ)
    except (SettingsError, PromptsError) as error:
        _complain(logs, str(error))
        sys.exit(USAGE_ERROR)
    end_once(os.environ)
    settings, said = decide_backend(configuration.settings, configuration.topology)
    configuration = replace(configuration, settings=settings)
    notes: list[tuple[Level, str]] = [("warning", problem) for problem in loaded.problems]
    notes += [("info", said)] if said else []
    with _agent(configuration, key.get_secret_value()) as agent:
        try:
            sys.exit(_run(configuration, agent, loaded, notes, console, as_json))
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            _complain(logs, f"{what}; is LOGS_DIR={logs} a folder that can be written to?")
            sys.exit(RUN_FAILED)


@contextmanager
def _agent(configuration: Configuration, key: str) -> Iterator[Subject]:
    # LangChain takes a second to import: what is wrong shall be said before that
    from agent.loop import Agent
    from agent.models import build_model, open_client

    settings = configuration.settings
    with open_client(settings) as client:
        model = build_model(settings, configuration.topology, key, client)
        yield Agent(model, subject_name(settings), redact=redactor(configuration.environ))


def subject_name(settings: Settings) -> str:
    if settings.model == "scripted":
        return f"{SELF_TEST} ({settings.persona})"
    return f"langchain agent, {settings.groq_model} ({settings.model})"


def _run(
    configuration: Configuration,
    agent: Subject,
    prompts: Prompts,
    notes: list[tuple[Level, str]],
    console: Console,
    as_json: bool,
) -> int:
    run_id = new_run_id()
    audience = ConsoleAudience(console)
    runner = Runner(
        run_id,
        configuration.settings,
        configuration.topology,
        agent,
        Control(lambda: State(configuration.state), time.time, time.sleep),
        Places(configuration.logs, configuration.effects),
        audience,
        redact=redactor(configuration.environ),
    )
    try:
        for level, text in notes:
            runner.note(level, text)
            audience.say(text if level == "info" else f"{level}: {text}")
        record = runner.run(prompts.entries, skipped_prompts=len(prompts.problems))
        summary = summarise(record.events)
        runner.summarised(summary.as_json())
    finally:
        runner.close()
    audience.close()
    repeat = command(runner.settings, str(configuration.prompts), summary.lab_id, configuration.environ)
    print_summary(console, summary, repeat)
    console.print(f"history: {configuration.logs}/runs/{run_id}", soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")
    if not record.completed:
        _complain(configuration.logs, f"the run ended early: {record.reason}")
    elif summary.episodes and all(one.outcome == "invalid" for one in summary.episodes):
        _complain(configuration.logs, f"the lab failed in every episode: {summary.episodes[-1].why}")
        return RUN_FAILED
    elif summary.invalid_because:
        _complain(configuration.logs, f"the run is invalid: {'; '.join(summary.invalid_because)}")
        return RUN_FAILED
    return 0 if record.completed else RUN_FAILED


def _complain(folder: Path, message: str) -> None:
    """On the console and in info.log."""
    sys.stderr.write(f"error: {message}\n")
    unwritten = log_error(folder, message)
    if unwritten:
        sys.stderr.write(f"error: {unwritten}\n")


if __name__ == "__main__":
    main()
