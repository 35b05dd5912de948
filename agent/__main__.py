"""``python -m agent``: sends the prompts through the lab and tells what happened. Exit code 0, 1 or 2."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import click
import httpx
from rich.console import Console

from agent.loop import Agent
from agent.models import api_key, build_model, open_client
from windtunnel import lifeline
from windtunnel.config import Configuration, load_configuration
from windtunnel.control import Control
from windtunnel.logs import Logs
from windtunnel.prompts import Prompts, PromptsError, load_prompts
from windtunnel.report.audience import ConsoleAudience
from windtunnel.report.console import print_summary
from windtunnel.report.reproduce import command
from windtunnel.runner import Places, Runner, new_run_id
from windtunnel.settings import Settings, SettingsError
from windtunnel.state import State
from windtunnel.summary import summarise

USAGE_ERROR, RUN_FAILED = 2, 1


@click.command()
@click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file")
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
def main(prompts: Path | None, as_json: bool) -> None:
    """Runs the prompts of PROMPTS_FILE once each, under the lab's faults."""
    # with --json the standard output is the object's alone
    console = Console(stderr=as_json, highlight=False, width=None if sys.stdout.isatty() else 110)
    try:
        configuration = load_configuration(os.environ)
        loaded = load_prompts(prompts or configuration.prompts)
        key = api_key(configuration.settings, configuration.environ)
    except (SettingsError, PromptsError) as error:
        _complain(str(error))
        sys.exit(USAGE_ERROR)
    _interrupt_once()
    lifeline.watch(os.environ, lambda: os.kill(os.getpid(), signal.SIGTERM))
    secrets = [key.get_secret_value()] if configuration.settings.model != "scripted" else []
    with open_client(configuration.settings) as client:
        agent = _agent(configuration, key.get_secret_value(), client)
        sys.exit(_run(configuration, agent, loaded, secrets, console, as_json))


def _agent(configuration: Configuration, key: str, client: httpx.Client) -> Agent:
    settings = configuration.settings
    model = build_model(settings, configuration.topology, key, client)
    return Agent(model, subject_name(settings))


def subject_name(settings: Settings) -> str:
    if settings.model == "scripted":
        return f"self-test subject: scripted model ({settings.persona})"
    return f"langchain agent, {settings.groq_model} ({settings.model})"


def _run(
    configuration: Configuration,
    agent: Agent,
    prompts: Prompts,
    secrets: list[str],
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
        redact=lambda text: _redact(text, secrets),
    )
    try:
        for problem in prompts.problems:
            runner.note("warning", problem)
            audience.say(f"warning: {problem}")
        record = runner.run(prompts.entries)
        summary = summarise(record.events, skipped_prompts=len(prompts.problems))
        runner.summarised(summary.as_json())
    finally:
        runner.close()
    audience.close()
    print_summary(console, summary, command(configuration.settings, str(configuration.prompts)))
    console.print(f"history: {configuration.logs}/runs/{run_id}", soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")
    if not record.completed:
        _complain(f"the run ended early: {record.reason}")
    return 0 if record.completed else RUN_FAILED


def _redact(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return text


def _complain(message: str) -> None:
    """On the console and in info.log; a log that cannot be written is no second error."""
    sys.stderr.write(f"error: {message}\n")
    try:
        logs = Logs(Path(os.environ.get("LOGS_DIR") or "logs"), "")
        logs.line("error", message)
        logs.close()
    except OSError as error:
        sys.stderr.write(f"error: logs cannot be written: {error}\n")


def _interrupt_once() -> None:
    """The first SIGINT or SIGTERM ends the run in order; later ones do not disturb that."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


if __name__ == "__main__":
    main()
