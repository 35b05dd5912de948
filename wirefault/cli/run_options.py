"""The options of what flies: settings, prompts, subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wirefault.judging.oracle.expect import expect_check
from wirefault.settings.settings import NAMES, Settings
from wirefault.wiring.links import Links
from wirefault.wiring.prompts import Prompts, PromptsError, load_prompts, prompts_of_texts

subject_option = click.option(
    "--subject",
    metavar="NAME|MODULE:FACTORY",
    help="the agent under test: lab is the lab's own; the name that an installed package gave it; or a"
    " function of a module, which may lie in this folder; default: the wiring's",
)


@dataclass(frozen=True)
class PromptsOptions:
    """Which prompts the command line names: ``texts`` themselves, else some or all of a file's."""

    file: Path | None
    texts: tuple[str, ...]
    only: tuple[str, ...]
    match: str

    def load(self, usual: Path, links: Links) -> Prompts:
        """The prompts; of the ``usual`` file if none is named. Raises ``PromptsError``.

        Oracles may ask for requests on these ``links`` alone.
        """
        if not self.texts:
            return load_prompts(self.file or usual, self.only, self.match, expect_check(links))
        if self.file or self.only or self.match:
            raise PromptsError("--prompt is a prompt itself: leave out --prompts, --only and --match")
        return prompts_of_texts(self.texts)


def prompts_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What names and picks prompts; the command gets ``prompts``, a ``PromptsOptions``."""

    def with_prompts(
        prompts: Path | None, prompt: tuple[str, ...], only: tuple[str, ...], match: str, **others: Any
    ) -> Any:
        return command(prompts=PromptsOptions(prompts, prompt, only, match), **others)

    with_prompts.__doc__ = command.__doc__
    with_prompts.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--match", metavar="TEXT", default="", help="only prompts that contain TEXT"),
        click.option(
            "--only",
            metavar="ID|N",
            multiple=True,
            help="only the prompt with this id, or the Nth of the file, with the same faults as among all;"
            " may be given several times",
        ),
        click.option(
            "--prompt", metavar="TEXT", multiple=True, help="this prompt; may be given several times"
        ),
        click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file [PROMPTS_FILE]"),
    ):
        with_prompts = option(with_prompts)
    return with_prompts


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each setting; validated with the other sources, not here."""
    for name in reversed(NAMES):
        text = Settings.model_fields[name].description or ""
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, name, metavar="VALUE", help=f"{text} [{name.upper()}]")(command)
    return command


def lab_options(command: Callable[..., Any], *, charts: bool = True) -> Callable[..., Any]:
    """Where the lab of one flight is, and what is shown of it; ``charts``: whether they are drawn unasked."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output"),
        click.option("--charts/--no-charts", default=charts, show_default=True, help="draw the run's charts"),
        click.option(
            "--out", type=click.Path(path_type=Path), help="folder for state/ and logs/; default: this one"
        ),
        click.option(
            "--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL"
        ),
    ):
        command = option(command)
    return command
