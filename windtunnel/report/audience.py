"""The console as the audience of a run: progress while it lasts, one line per prompt."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.text import Text

from windtunnel.history.logs import strip_control
from windtunnel.judging.judge import EpisodeJudgement
from windtunnel.report.console import episode_line, line_width


class ConsoleAudience:
    """On a terminal the prompt in progress is shown below the lines; elsewhere only whole lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(Text(), console=console, transient=True, auto_refresh=False)
        if console.is_terminal:
            self._live.start()

    def say(self, message: str) -> None:
        self._console.print(Text(strip_control(message)))

    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None:
        if self._live.is_started:
            again = f" (attempt {attempt})" if attempt > 1 else ""
            line = Text(f"{index:>3}/{total} {strip_control(prompt)}{again} ...", style="dim", no_wrap=True)
            line.truncate(self._console.width, overflow="ellipsis")
            self._live.update(line, refresh=True)

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudgement) -> None:
        self._console.print(episode_line(judgement, index, total, line_width(self._console)))

    def close(self) -> None:
        self._live.update(Text(), refresh=self._live.is_started)
        self._live.stop()
