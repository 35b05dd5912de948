"""Remarks about the configuration are printed before the run and recorded in its history."""

from __future__ import annotations

from tests.e2e.lab import SETTINGS, SharedLab, Silence, sample
from tests.support import replace
from wirefault.core.identity import new_run_id
from wirefault.history.events import Note
from wirefault.runner.run import run_prompts
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, SubjectResult, as_subject
from wirefault.wiring.prompts import Prompts


class HeardMessages(Silence):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, message: str) -> None:
        self.messages.append(message)


def idle(prompt: str, context: AttemptContext) -> SubjectResult:
    return SubjectResult("text", response="I did nothing.")


def test_old_name_gives_one_warning(shared: SharedLab) -> None:
    configuration = replace(
        shared.configuration,
        settings=Settings(**SETTINGS),
        topology=shared.lab.topology,
        remarks=("intervals.proxy_timeout is now called tool_timeout",),
    )
    heard, prompts = HeardMessages(), Prompts([sample("temperature in Paris")])
    lab_run = run_prompts(new_run_id(), configuration, as_subject(idle), prompts, heard)
    assert f"warning: {configuration.remarks[0]}" in heard.messages
    notes = [event.message for event in lab_run.record.events if isinstance(event, Note)]
    assert configuration.remarks[0] in notes
