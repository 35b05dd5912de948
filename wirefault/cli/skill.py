"""``wirefault skill``: instructions for coding agents."""

from __future__ import annotations

from pathlib import Path

import click

from wirefault.cli.help import Command

SKILL_FILE = Path(__file__).with_name("SKILL.md")


@click.command(
    "skill",
    cls=Command,
    examples=("wirefault skill", "wirefault skill > .claude/skills/wirefault-audit/SKILL.md"),
)
def skill_command() -> None:
    """Print instructions for coding agents: how to audit an agent and mend what was found."""
    click.echo(SKILL_FILE.read_text(encoding="utf-8"), nl=False)
