"""The help of every command: examples, sections, ten options at most, 25 of ``run``; misspelt commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tests.support import ROOT
from wirefault.cli.main import main
from wirefault.core.sockets import is_this_machine
from wirefault.settings.settings import INTERNAL

MAX_OPTIONS = {"run": 25}  # and ten of each other command
OF_HELP = {"--help", "--help-all"}


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        elif command is not None:
            yield " ".join((*words, name)), command


COMMANDS = dict(commands(main))


def help_of(name: str, option: str = "--help") -> str:
    result = CliRunner().invoke(main, [*name.split(), option], terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_two_examples_and_few_options(name: str) -> None:
    text = help_of(name)
    examples = text.partition("Examples:\n")[2].splitlines()
    assert len(examples) >= 2 and all("wirefault" in line for line in examples)
    words = {line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  -")}
    assert len(words - OF_HELP) <= MAX_OPTIONS.get(name, 10)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_has_every_option_and_no_internal_setting(name: str) -> None:
    command, text = COMMANDS[name], help_of(name)
    text = help_of(name, "--help-all") if "--help-all" in text else text
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option for option in options if option.opts[0] not in text] == []
    assert not INTERNAL & {option.name for option in options}


def test_help_and_pages_name_the_hosts_that_stay_on_this_machine() -> None:
    pages = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("audit", "subjects")]
    for text in (help_of("audit", "--help-all"), *pages):
        words = " ".join(text.replace("`", "").split())
        [names] = re.findall(r"loopback, (\.\w+),? (?:and |or )?(\.\w+)", words)
        assert names == (".localhost", ".test")
        assert all(is_this_machine(f"shop{name}") for name in names)
    assert not is_this_machine("shop.local")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demoo"], "unknown command 'demoo'; did you mean 'demo'?"),
        (["runs", "verfy"], "unknown command 'verfy'; did you mean 'verify'?"),
        (["faults", "drw"], "unknown command 'drw'; did you mean 'draw'?"),
    ],
)
def test_misspelt_command_names_nearest(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 64 and message in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--resume", "latest", "--episode", "1"], "--episode does not apply to --resume"),
        (["run", "--lab", "x.yaml"], "--lab takes no file: x.yaml"),
        (["run", "--lab", "--levels", "1"], "--levels does not apply to --lab"),
        (["run", "--link", "a=http://127.0.0.1:9", "--junit", "x"], "--junit does not apply to a wiring"),
    ],
)
def test_options_of_other_run_modes_are_refused(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 64 and message in result.output
