"""Subjects ended by their budgets: each kind ends for good, with a reason, and gets no further prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.subjects.wired import Wired, alive, pid_in
from tests.support import PATIENCE_S, replace, until
from tests.upstream import FREE
from wirefault.core.identity import Identity
from wirefault.core.sockets import bind, bound_address
from wirefault.history.events import AttemptEnded, BudgetSpent, BudgetUnknown, BudgetWarned, Event
from wirefault.history.reader import Tail
from wirefault.history.writer import Writer, history_file
from wirefault.runner.attempts import worth_another
from wirefault.settings.budgets import load_budgets
from wirefault.subjects.budgeted import BUDGET_SPENT, budgeted
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult, as_subject

pytestmark = pytest.mark.slow

PYTHON = json.dumps(sys.executable)
# holds some 200 MB, then waits
HOG = "import os, time; open('pid', 'w').write(str(os.getpid())); data = b'x' * 200_000_000; time.sleep(600)"
CALLABLE = f"def answer(prompt):\n    exec({HOG!r})"
SERVICE = f"""
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        exec({HOG!r})

HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent).serve_forever()
"""
MEMORY = '{"episode": {"memory": 100000000}}'
TIME = '{"episode": {"time": 0.4}}'
END = '{"episode": {"tokens": 10}, "mode": "end"}'


class BudgetedAttempts:
    """Attempts of one run under budgets, as the runner makes them."""

    def __init__(self, wired: Wired, budgets: str) -> None:
        self.wired = wired
        self.budgets = budgets
        self.gateway = history_file(wired.folder / "logs", "run-1", "gateway", 0)

    def limited(self, subject: Subject | Callable[[str, AttemptContext], SubjectResult]) -> Subject:
        return budgeted(as_subject(subject), load_budgets(self.budgets), Tail(self.gateway))

    def ask(self, yaml: str) -> SubjectResult:
        with self.wired.subject(yaml) as subject:
            return self.limited(subject)("the prompt", self.context())

    def context(self, episode: str = "episode", attempt: int = 1) -> AttemptContext:
        context = self.wired.context(attempt, attempt_time=PATIENCE_S)
        return replace(context, identity=Identity("run-1", episode, attempt))

    def write(self, *events: Event) -> None:
        writer = Writer(self.gateway)
        for event in events:
            writer.write(event)
        writer.close()

    def recorded(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.wired.events if isinstance(event, kind)]


@pytest.fixture
def wired(tmp_path: Path) -> Wired:
    return Wired(tmp_path)


def assert_ended_by(result: SubjectResult, budget: str) -> None:
    assert (result.ended_by, result.error_type) == ("limit", BUDGET_SPENT), result
    assert result.error is not None and f"the budget {budget} is used up" in result.error


@pytest.mark.parametrize("kind", ["command", "python", "service"])
def test_memory_budget_ends_process(wired: Wired, kind: str) -> None:
    with bind(FREE) as listener:
        url = f"http://{bound_address(listener)}"
    wired.file("hog.py", {"command": HOG, "python": CALLABLE, "service": SERVICE}[kind])
    service = {"service": [sys.executable, "hog.py", url.rpartition(":")[2]], "url": url, "answer": "text"}
    yaml = {
        "command": f"{{command: [{PYTHON}, hog.py], folder: .}}",
        "python": '{python: "hog:answer"}',
        "service": json.dumps(service),
    }[kind]
    attempts = BudgetedAttempts(wired, MEMORY)
    assert_ended_by(attempts.ask(yaml), "episode.memory")
    [spent], [warned] = attempts.recorded(BudgetSpent), attempts.recorded(BudgetWarned)
    assert spent.used >= spent.limit == 100_000_000 and spent.ends and warned.limit == 100_000_000
    pid = pid_in(next(wired.folder.rglob("pid")))
    until(lambda: not alive(pid), "its end")


def test_ended_process_restarts_for_next_episode(wired: Wired) -> None:
    wired.file("hog.py", f"def answer(prompt):\n    if prompt != 'small': exec({HOG!r})\n    return prompt")
    attempts = BudgetedAttempts(wired, MEMORY)
    with wired.subject('{python: "hog:answer"}') as subject:
        limited = attempts.limited(subject)
        assert_ended_by(limited("large", attempts.context("first")), "episode.memory")
        assert limited("small", attempts.context("second")).response == "small"


def test_process_within_memory_budget_runs(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, '{"episode": {"memory": "8GiB"}}')
    assert attempts.ask("{command: [cat]}").response == "the prompt"
    assert not wired.events


def test_unreadable_memory_is_recorded_as_unknown(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    attempts = BudgetedAttempts(wired, MEMORY)
    assert attempts.ask("{command: [cat]}").response == "the prompt"
    assert [(event.budget, event.why) for event in attempts.recorded(BudgetUnknown)] == [
        ("episode.memory", "no_memory")
    ]


def test_time_budget_spans_attempts(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, TIME)
    limits: list[float] = []

    def subject(prompt: str, context: AttemptContext) -> SubjectResult:
        limits.append(context.settings.attempt_time)
        return SubjectResult("empty")

    limited = attempts.limited(subject)
    for episode, attempt in (("a", 1), ("a", 2), ("b", 1)):
        limited("the prompt", attempts.context(episode, attempt))
    first, second, of_other = limits
    assert second < first == of_other == 0.4


def test_time_budget_ends_episode(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, TIME)
    assert_ended_by(attempts.ask("{command: [sleep, '600']}"), "episode.time")
    [spent] = attempts.recorded(BudgetSpent)
    assert (spent.budget, spent.limit, spent.ends) == ("episode.time", 0.4, True)


def test_earlier_limit_is_not_budget(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, '{"episode": {"time": 600}}')
    result = attempts.limited(lambda prompt, context: SubjectResult("limit", error_type="LimitReached"))(
        "the prompt", attempts.context()
    )
    assert result.error_type == "LimitReached" and not wired.events


@pytest.mark.parametrize(
    ("place", "ends", "ended"),
    [(("episode", 1), True, True), (("episode", 1), False, False), (("other", 1), True, False)],
    ids=["its own", "one that only refuses", "another's"],
)
def test_budget_spent_at_gateway_ends_attempt(
    wired: Wired, place: tuple[str, int], ends: bool, ended: bool
) -> None:
    attempts = BudgetedAttempts(wired, END)
    attempts.write(BudgetSpent(1.0, *place, "episode.tokens", 12, 10, ends))
    if not ended:
        assert attempts.ask("{command: [cat]}").response == "the prompt"
        return
    assert_ended_by(attempts.ask("{command: [sleep, '600']}"), "episode.tokens")
    assert not wired.events  # the gateway has recorded it


def test_unreadable_gateway_history_is_lab_failure(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, END)
    attempts.gateway.parent.mkdir(parents=True)
    attempts.gateway.write_text("no event\n")
    with pytest.raises(
        LabFailed, match=r"its budgets could not be watched: .*gateway-0\.jsonl:1: not an event"
    ):
        attempts.ask("{command: [cat]}")


def test_in_process_subject_can_exit(wired: Wired) -> None:
    attempts = BudgetedAttempts(wired, END)

    def subject(prompt: str, context: AttemptContext) -> SubjectResult:
        assert not context.budget_spent()
        attempts.write(BudgetSpent(1.0, "episode", 1, "episode.tokens", 12, 10, True))
        until(context.budget_spent, "the budget")
        raise RuntimeError("ended by itself")

    assert_ended_by(attempts.limited(subject)("the prompt", attempts.context()), "episode.tokens")


def test_exhausted_budget_prevents_further_attempts() -> None:
    ended = AttemptEnded("e", 1, 1.0, 2.0, 1.0, "limit", "", error_type="LimitReached", error="")
    assert worth_another(ended) and not worth_another(replace(ended, error_type=BUDGET_SPENT))
