"""``wirefault``: the commands put together."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from wirefault._version import __version__
from wirefault.core.errors import LAB_FAILED, USAGE, InputError, UserError
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE

# what each does stands here too, so that --help imports none of them
COMMANDS = {
    "demo": "Start a lab, send the prompts through it under chaos, show what happened, take the lab down.",
    "fly": "Fly your own agent over your own links: start a lab, send the prompts, show what happened.",
    "exec": "Run a command unchanged, break what it calls, and tell what it did about it.",
    "run": "Fly experiments to their verdict; or, without any, the prompts through the lab that is up.",
    "plan": "Show what experiments will fly: arms, episodes, what must hold, the toxics drawn. Runs nothing.",
    "stress": "Fly an experiment's faults at several levels, and show up to which one its hypothesis holds.",
    "fuzz": "Draw fault sets, and save each one as an experiment in FOLDER. Flies nothing.",
    "resume": "Go on with an experiment that was broken off: what it has flown to its end stays as it is.",
    "rerun": "Fly an experiment, or some of its episodes, again from its saved plan, with the same draws.",
    "report": "Judge an experiment again from its histories, and show what held. Flies nothing.",
    "show": "Show an episode as a timeline: requests, faults, both sides of what was struck, effects, claim.",
    "compare": "Compare two experiments or runs: success, measures, outcomes, settings. Flies nothing.",
    "list": "List the experiments that were begun here, with their verdicts; the last one comes last.",
    "lab": "A lab that stays up, to play with.",
    "faults": "List the faults; show one, or a fault set; set or clear them on a lab that is up.",
    "mcp": "Start an MCP server over stdio for its client, and lead what both say through the lab.",
    "judge": "Score a run again from its history, to the same outcomes.",
    "toxiproxy": "Run the embedded Toxiproxy by itself, for clients of every language.",
    "init": "Write the lab into a folder to play with: agent, services, prompts, fault sets, Compose files.",
}


class _Commands(click.Group):
    """Imports a command's module, ``wirefault.cli.NAME``, only when the command is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"wirefault.cli.{name}"), f"{name}_command")
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **extra)
        except click.UsageError as error:  # of an option before any command
            raise _with_code(error, USAGE) from None

    def invoke(self, context: click.Context) -> Any:
        """Turns errors that are meant for people, and Ctrl-C, into one line and an exit code."""
        try:
            return super().invoke(context)
        except InputError as error:
            raise _with_code(click.UsageError(_shown(error), None), USAGE) from None
        except UserError as error:
            raise _with_code(click.ClickException(_shown(error)), LAB_FAILED) from None
        except click.ClickException as error:
            raise _with_code(error, USAGE if isinstance(error, click.UsageError) else LAB_FAILED) from None
        except KeyboardInterrupt as end:
            click.echo(str(end) or INTERRUPTED_LINE, err=True)
            context.exit(INTERRUPTED)


def _with_code(error: click.ClickException, code: int) -> click.ClickException:
    error.exit_code = code  # type: ignore[misc]  # click reads it from the instance, too
    return error


def _shown(error: UserError) -> str:
    """What it says, without the control characters of names and texts from files that others wrote."""
    from wirefault.history.logs import strip_control  # only now, since its imports are slow

    return strip_control(str(error))


@click.group(cls=_Commands)
@click.version_option(__version__, package_name="wirefault")
def main() -> None:
    """Wirefault, a chaos lab for AI agents."""
