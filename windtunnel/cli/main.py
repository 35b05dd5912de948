"""``windtunnel``: the commands put together."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from windtunnel.faults.sets.checks import FaultSetError
from windtunnel.judging.prompts import PromptsError
from windtunnel.lab.live import LiveFaultsError
from windtunnel.settings.settings import SettingsError

_COMMANDS = ("demo", "run", "lab", "faults", "judge", "toxiproxy", "init")


class _Commands(click.Group):
    """Imports a command's module, ``windtunnel.cli.NAME``, only when the command is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"windtunnel.cli.{name}"), f"{name}_command")
        return command

    def invoke(self, context: click.Context) -> Any:
        """Turns errors that are meant for people into one line; exit code 2, or 1 if no lab answers."""
        try:
            return super().invoke(context)
        except (SettingsError, PromptsError, FaultSetError) as error:
            raise click.UsageError(str(error), None) from None
        except LiveFaultsError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Commands)
@click.version_option(package_name="windtunnel")
def main() -> None:
    """Windtunnel, a chaos lab for AI agents."""
