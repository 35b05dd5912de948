"""A key reaches no file, whatever prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lab import SharedLab
from wirefault.history.events import Note, Report
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.wiring.prompts import Prompt

KEY = "gsk_0123456789abcdef"


class Leaky(Subject):
    """Says the key wherever a subject can say something."""

    name = "a leaky subject"

    def __init__(self, crash: bool) -> None:
        self._crash = crash

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        context.record(Note(0.0, "warning", f"Authorization: Bearer {KEY}"))
        if self._crash:
            raise RuntimeError(f"401 for {KEY}")
        report = Report("done", f"the key is {KEY}", [{"value": KEY, "unit": None}])
        return SubjectResult("report", report, response=KEY)


@pytest.mark.parametrize("crash", [False, True])
def test_key_is_in_no_file(shared: SharedLab, crash: bool) -> None:
    settings, environ = Settings(seed=1, toxic_prob=0), {"GROQ_API_KEY": KEY}
    lab_run = shared.run_subject(
        Leaky(crash), Prompt("say", f"say {KEY}"), settings=settings, environ=environ
    )
    logs: Path = shared.configuration.logs
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert any(lab_run.record.run_id in str(path) for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert KEY not in str(lab_run.summary.as_json()) and KEY not in str(lab_run.record.events)
