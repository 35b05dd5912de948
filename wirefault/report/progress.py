"""Progress of a run on a terminal: rate, success with its interval, what is left, the latest findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from wirefault.experiments.figures import success_text
from wirefault.experiments.watch import ArmSoFar
from wirefault.report.tables import one_line


def shows_progress(console: Console, environ: Mapping[str, str], *, verbose: bool) -> bool:
    """Return whether to show progress: on a terminal outside CI, unless every episode has a line."""
    return console.is_terminal and not environ.get("CI") and not verbose


class RunProgress:
    """Shows a line for the current arm until it ends, and above it a line for each new finding.

    A context manager, called with the arm's current state from any thread.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TextColumn("{task.fields[success]}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            refresh_per_second=4,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, rate="", success="", left="", visible=False)
        self._arm: tuple[str, int, float] = ("", 0, 0.0)

    def __enter__(self) -> RunProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, arm: ArmSoFar) -> None:
        done, now = len(arm.outcomes), self._clock()
        if arm.name != self._arm[0]:
            self._arm = arm.name, done, now
            self._progress.reset(self._task, total=arm.planned, description=arm.name, visible=True)
        _, before, began = self._arm
        rate = f"{(done - before) / (now - began):.1f}/s" if now > began else ""
        left = arm.left.text if arm.left else ""
        success = success_line(arm) if arm.judged else ""
        total = arm.planned  # a search adds episodes
        self._progress.update(self._task, completed=done, total=total, rate=rate, success=success, left=left)
        while arm.findings:
            self._progress.console.print(f"  {one_line(arm.findings.popleft())}", style="dim", markup=False)


def success_line(arm: ArmSoFar) -> str:
    """Return the success rate until now, as the arm's result will have it, and the number of invalid ones."""
    invalid = f", {arm.invalid} invalid" if arm.invalid else ""
    return f"success {success_text(arm.outcomes, arm.terms)}{invalid}"
