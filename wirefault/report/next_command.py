"""The last line of a run that did not go well: the command that shows the episode to look at first."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from wirefault.core.lab_folder import logs_folder, output_folder
from wirefault.history.events import EpisodeJudged
from wirefault.history.judged_events import Finding
from wirefault.history.logs import strip_control
from wirefault.judging.findings.finding import worst_of
from wirefault.judging.oracle.outcome import OUTCOMES, Tone
from wirefault.judging.summary import Summary
from wirefault.report.reproduce import COMPOSE_LAB

if TYPE_CHECKING:
    from wirefault.experiments.saved import SavedExperiment

# of outcomes, worst first; an episode of another tone has no failure to explain
_TONES: Sequence[Tone] = ("harmful", "ended", "failed", "lab")


def worst_episode(
    episodes: Iterable[EpisodeJudged], findings: Iterable[Finding], among: Collection[str] = ()
) -> str:
    """Return the key of the episode with the worst finding, else outcome; empty if none has either.

    ``among``: only these episodes, which show why a statement deviated; none: all.
    """
    worst = worst_of(each for each in findings if not among or each.episode in among)
    if worst is not None:
        return worst.episode
    chosen = [each for each in episodes if not among or each.episode in among]
    failed = [each for each in chosen if among or _rank_of_outcome(each) < len(_TONES)]
    first = min(failed, key=_rank_of_outcome, default=None)
    return first.episode if first is not None else ""


def _rank_of_outcome(episode: EpisodeJudged) -> int:
    tone = OUTCOMES[episode.outcome].tone
    return _TONES.index(tone) if tone in _TONES else len(_TONES)


def why_line(run: str, episode: str, logs: Path, *, arm: str = "", lab_id: str = "") -> str:
    """Return ``why: wirefault show RUN EPISODE``, which works as printed in the folder of the run."""
    return f"why: {episode_command(run, episode, logs, arm=arm, lab_id=lab_id)}"


def episode_command(run: str, episode: str, logs: Path, *, arm: str = "", lab_id: str = "") -> str:
    """Return ``wirefault show RUN EPISODE``, which works as printed in the folder of the run."""
    end = ["--", episode] if episode.startswith("-") else [episode]
    words = ["wirefault", "show", run, *([f"--arm={arm}"] if arm else [])]
    return command_on_run(words, end, logs, lab_id)


def repeat_command(run: str, episode: str, logs: Path, *, arm: str = "") -> str:
    """Return the command that runs one recorded episode again, under the same faults."""
    words = ["wirefault", "run", "--again", run, *([f"--arm={arm}"] if arm else [])]
    return command_on_run(words, [f"--episode={episode}"], logs)


def command_on_run(words: Sequence[str], end: Sequence[str], logs: Path, lab_id: str = "") -> str:
    """Return a command that finds its run in ``logs``, as people type it. The folder comes before ``end``."""
    if lab_id == COMPOSE_LAB:  # the host has no command
        return shlex.join(["docker", "compose", "run", "--rm", "agent", "python", "-m", *words, *end])
    if _is_same(logs, logs_folder({})):
        return shlex.join([*words, *end])
    for folder in (logs.parent, logs.parent.parent):
        if _is_same(output_folder(folder) / "logs", logs):
            return shlex.join([*words, f"--out={folder}", *end])
    return f"LOGS_DIR={shlex.quote(str(logs))} {shlex.join([*words, *end])}"


def with_folder(command: str, logs: Path) -> str:
    """Return a command that records runs, with the folder of ``logs`` unless that is the default."""
    if " docker compose " in f" {command}" or command.startswith("pytest "):
        return command
    for folder in (logs.parent, logs.parent.parent):
        if not _is_same(logs, logs_folder({})) and _is_same(output_folder(folder) / "logs", logs):
            option = shlex.join([f"--out={folder}"])
            before, name, after = re.split(r"(\bwirefault \w+)", command, maxsplit=1)
            return f"{before}{name} {option}{after}"
    return command if _is_same(logs, logs_folder({})) else f"LOGS_DIR={shlex.quote(str(logs))} {command}"


def print_resume(console: Console, saved: SavedExperiment) -> None:
    """Print the command that runs the rest of what was interrupted or ended early, unbroken for copying."""
    line = f"to resume it: {with_folder(saved.resume_command, saved.logs)}"
    console.print(Text(strip_control(line)), soft_wrap=True)


def print_why(console: Console, summary: Summary, logs: Path) -> None:
    """Print the line for a run without a hypothesis, unbroken for copying, if something failed in it."""
    if episode := worst_episode(summary.episodes, summary.findings):
        line = why_line(summary.run_id, episode, logs, lab_id=summary.lab_id)
        console.print(Text(strip_control(line)), soft_wrap=True)


def _is_same(one: Path, other: Path) -> bool:
    return one.absolute() == other.absolute()
