"""``wirefault``: all commands combined."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from wirefault.cli.help import Group
from wirefault.core.errors import LAB_FAILED, USAGE, InputError, UserError
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE

# the help texts are repeated here, so that --help imports no command
COMMANDS = {
    "demo": "Start the lab, send the prompts through it under chaos, and show what happened.",
    "audit": "Ask what an agent does when each of its calls fails, and report what harms.",
    "exec": "Run a command unchanged, break the links it uses, and show what it did about it.",
    "run": "Run experiments to their verdict, or a wiring without a hypothesis.",
    "plan": "Show what experiments will run: arms, episodes, statements and the toxics drawn. Runs nothing.",
    "runs": "Look at recorded runs and experiments; verify, prune and bundle them.",
    "list": "List the recorded runs and experiments: verdict, worst finding and agent; the newest last.",
    "show": "Show an episode as a timeline: requests, faults, replies before and after, side effects, claim.",
    "report": "Show an experiment's verdict, computed from its histories. Runs nothing.",
    "search": "Find what to test next, the dose, the smallest set or the one fault that makes an agent fail.",
    "memory": "Show what the recorded runs taught about each component and fault; rebuild it from them.",
    "compare": "Compare two experiments or runs: success, measures, findings, settings. Runs nothing.",
    "baseline": "Accept a recording as the state to compare with, in a file to commit.",
    "ui": "Show the recorded runs as pages on this machine: a list, each run, two side by side.",
    "init": "Write a wiring, an experiment and a CI file into this folder, from what an audit found.",
    "lab": "Start, stop and show a lab that stays up; write one into a folder.",
    "faults": "List, show and draw faults and fault sets; set or clear them on a lab that is up.",
    "mcp": "Start an MCP server over stdio for its client, and send their messages through the lab.",
    "skill": "Print instructions for coding agents: how to audit an agent and mend what was found.",
    "toxiproxy": "Run the embedded Toxiproxy alone, for clients of every language.",
}


class _Commands(Group):
    """Imports a command's module only when the command is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"wirefault.cli.{'runs' if name == 'list' else name}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **extra)
        except click.UsageError as error:  # for an option before any command
            raise _with_code(error, USAGE) from None

    def invoke(self, context: click.Context) -> Any:
        """Turn Ctrl-C and errors meant for people into one line and an exit code."""
        try:
            return super().invoke(context)
        except InputError as error:
            raise _with_code(click.UsageError(_printable(error), None), USAGE) from None
        except UserError as error:
            raise _with_code(click.ClickException(_printable(error)), error.code) from None
        except click.ClickException as error:
            raise _with_code(error, USAGE if isinstance(error, click.UsageError) else LAB_FAILED) from None
        except KeyboardInterrupt as end:
            click.echo(str(end) or INTERRUPTED_LINE, err=True)
            context.exit(INTERRUPTED)


def _with_code(error: click.ClickException, code: int) -> click.ClickException:
    error.exit_code = code  # type: ignore[misc]  # click reads it from the instance, too
    return error


def _printable(error: UserError) -> str:
    """Return the error's message without control characters, which names and texts of foreign files may
    contain.
    """
    from wirefault.history.logs import strip_control  # imported here, since it is slow

    return strip_control(str(error))


@click.group(cls=_Commands)
@click.version_option(package_name="wirefault")
def main() -> None:
    """Wirefault, a chaos lab for AI agents."""
    if "WIREFAULT_SIGNING_KEY" in os.environ:  # before any child process inherits it
        from wirefault.core.signing import take_key_variable

        take_key_variable()
