"""The exit code of a command without a hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from click import Context

from wirefault.cli.main import main
from wirefault.history.judged_events import Severity
from wirefault.judging.account import FaultAccount, nothing_known
from wirefault.judging.ending import FAIL_ON, FailOn, ending


@pytest.mark.parametrize(
    ("severities", "fail_on", "known", "code"),
    [
        (["harmful"], "risky", True, 1),
        (["harmful"], "risky", False, 1),
        (["risky"], "risky", True, 1),
        (["risky"], "harmful", True, 0),
        (["wasteful"], "risky", True, 0),
        (["wasteful"], "wasteful", True, 1),
        (["note"], "wasteful", True, 0),
        (["note", "harmful"], "harmful", True, 1),
        (["harmful"], "none", True, 0),
        (["harmful"], "none", False, 2),
        ([], "risky", True, 0),
        ([], "risky", False, 2),
    ],
)
def test_ending_by_worst_finding_and_what_is_known(
    severities: Sequence[Severity], fail_on: FailOn, known: bool, code: int
) -> None:
    assert ending(severities, fail_on, known=known) == code


@pytest.mark.parametrize(
    ("reached", "injected", "why"),
    [
        (0, 0, "no fault was met"),
        (1, 0, "no fault was injected"),
        (1, None, "it is not known whether"),
        (1, 1, ""),
    ],
)
def test_run_that_shows_nothing_says_why(reached: int, injected: int | None, why: str) -> None:
    account = FaultAccount(
        0, "f", "fault", "lose_reply", ["shop"], 1, reached, reached, reached, injected, injected, injected
    )
    sentence = nothing_known([account], {})
    assert sentence.startswith(why) and bool(sentence) == bool(why)


def test_run_without_faults_has_none_to_inject() -> None:
    assert not nothing_known([], {"toxic_prob": 0.0})
    assert nothing_known([], {"toxic_prob": 0.1})


@pytest.mark.parametrize("command", ["exec", "run", "audit"])
def test_each_command_takes_the_same_limits(command: str) -> None:
    subcommand = main.get_command(Context(main), command)
    assert subcommand is not None
    [option] = [each for each in subcommand.params if each.name == "fail_on"]
    assert (tuple(option.type.choices), option.default) == (FAIL_ON, "risky")  # type: ignore[attr-defined]
