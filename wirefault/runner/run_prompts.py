"""One run from an open subject and its prompts to its summary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import requests

from wirefault.history.events import Level
from wirefault.judging.prompts import Prompts, check_next_turns, check_turns
from wirefault.judging.summary import Summary, ended_early, summarise
from wirefault.runner.record import RunRecord
from wirefault.runner.run import ProgressListener, Runner
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import Subject
from wirefault.subjects.taps.tap import NO_TAP
from wirefault.wiring.topology import Topology

_PROBE_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Flight:
    """A run that has ended: its settings as they were in force, its record, and its summary."""

    settings: Settings
    record: RunRecord
    summary: Summary

    @property
    def failure(self) -> str:
        """Why the lab, not the subject, failed; empty for a run that a working lab carried to its end."""
        if not self.record.completed:
            return ended_early(self.record.reason)
        return self.summary.lab_failed_because


def fly(
    run_id: str, configuration: Configuration, subject: Subject, prompts: Prompts, listener: ProgressListener
) -> Flight:
    """Sends the prompts to the subject in a lab that is up. Raises ``OSError`` if a log cannot be written.

    Raises ``PromptsError``, before anything is sent, for a conversation that the subject cannot hold, or
    whose turns nothing can make.

    What ends the run early, ``KeyboardInterrupt`` included, is not raised: ``Flight.failure`` says it.
    """
    check_turns(prompts, holds_them=bool(getattr(subject, "holds_conversations", False)))
    check_next_turns(prompts)
    settings, decision = decide_backend(configuration.settings, configuration.topology)
    notes: list[tuple[Level, str]] = [("warning", problem) for problem in prompts.problems]
    notes += [("warning", remark) for remark in configuration.remarks]
    notes += [("info", decision)] if decision else []
    notes += getattr(subject, "tap", NO_TAP).notes
    runner = Runner(run_id, replace(configuration, settings=settings), subject, listener)
    try:
        for level, message in notes:
            runner.note(level, message)
            listener.say(message if level == "info" else f"{level}: {message}")
        record = runner.run(prompts)
        summary = summarise(record.events)
        runner.log_summary(summary.as_json())
    finally:
        runner.close()
    return Flight(runner.settings, record, summary)


def decide_backend(settings: Settings, topology: Topology) -> tuple[Settings, str | None]:
    """The settings with ``auto`` replaced, and a sentence on how that was decided (None if it was given).

    Under the scripted model, and with cassettes, ``auto`` is the offline phrasebook, so that a seed repeats
    itself. Else the translator service is asked, through its link before any fault, for the first backend
    that works.
    """
    if settings.translator_backend != "auto":
        return settings, None
    if settings.translates_offline:
        return settings.model_copy(update={"translator_backend": "offline"}), None
    backend, reason = _probe(topology.proxies["translator"].url)
    sentence = f"translator: {backend} for this run ({reason})"
    return settings.model_copy(update={"translator_backend": backend}), sentence


def _probe(url: str) -> tuple[str, str]:
    try:
        with requests.Session() as session:
            session.trust_env = False
            reply = session.get(f"{url}/backends/probe?backend=auto", timeout=_PROBE_TIMEOUT_S)
            answer = reply.json()
        return str(answer["backend"]), str(answer["reason"])
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        return "offline", f"the probe failed: {type(error).__name__}"
