"""One run from an open subject and its prompts to its summary."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windtunnel.history.events import Level
from windtunnel.judging.prompts import Prompts
from windtunnel.judging.summary import Summary, summarise
from windtunnel.runner.record import RunRecord
from windtunnel.runner.run import ProgressListener, Runner
from windtunnel.runner.translator import decide_backend
from windtunnel.settings.configuration import Configuration
from windtunnel.settings.settings import Settings
from windtunnel.subjects.subject import Subject


@dataclass(frozen=True)
class Flight:
    """A run that has ended: its settings as they were in force, its record, and its summary."""

    settings: Settings
    record: RunRecord
    summary: Summary

    @property
    def failure(self) -> str:
        """Why the lab, not the subject, failed; empty for a run that a working lab carried to its end."""
        summary = self.summary
        if not self.record.completed:
            return f"the run ended early: {self.record.reason}"
        if summary.episodes and all(episode.outcome == "invalid" for episode in summary.episodes):
            return f"the lab failed in every episode: {summary.episodes[-1].why}"
        if summary.invalid_because:
            return f"the run is invalid: {'; '.join(summary.invalid_because)}"
        return ""


def fly(
    run_id: str, configuration: Configuration, subject: Subject, prompts: Prompts, listener: ProgressListener
) -> Flight:
    """Sends the prompts to the subject in a lab that is up. Raises ``OSError`` if a log cannot be written.

    What ends the run early, ``KeyboardInterrupt`` included, is not raised: ``Flight.failure`` says it.
    """
    settings, decision = decide_backend(configuration.settings, configuration.topology)
    notes: list[tuple[Level, str]] = [("warning", problem) for problem in prompts.problems]
    notes += [("info", decision)] if decision else []
    runner = Runner(run_id, replace(configuration, settings=settings), subject, listener)
    try:
        for level, message in notes:
            runner.note(level, message)
            listener.say(message if level == "info" else f"{level}: {message}")
        record = runner.run(prompts.entries, skipped_prompts=len(prompts.problems))
        summary = summarise(record.events)
        runner.log_summary(summary.as_json())
    finally:
        runner.close()
    return Flight(runner.settings, record, summary)
