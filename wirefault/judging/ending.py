"""The exit code of a command without a hypothesis: one policy for all of them. Pure.

A hypothesis decides where there is one, see ``experiments.verdict``. Without one a command ends with 1 if it
found something at or above ``--fail-on``, with 2 if no fault was injected or nothing is known about it, else
with 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from wirefault.core import interrupts
from wirefault.core.errors import DEVIATED, UNKNOWN
from wirefault.history.judged_events import SEVERITIES, Severity
from wirefault.judging.account import nothing_known

if TYPE_CHECKING:
    from wirefault.judging.summary import Summary

# what a run without a hypothesis showed: the one word of list, page, Markdown and JUnit
FOUND: Mapping[Severity, str] = {"harmful": "harm found", "risky": "risk found"}
FINE, UNDECIDED, CUT_SHORT, NO_VERDICT = "nothing harmful found", "unknown", "ended early", "no verdict"
INTERRUPTED, DRY_RUN = "interrupted", "dry run"
# of recordings without their end, whose findings so far come second
CAN_RESUME = frozenset({INTERRUPTED, CUT_SHORT})
EARLY = frozenset({NO_VERDICT, INTERRUPTED, CUT_SHORT, DRY_RUN})
FailOn = Literal["harmful", "risky", "wasteful", "none"]
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)
_DEFAULT: FailOn = "risky"


def fails(severity: Severity, fail_on: FailOn = _DEFAULT) -> bool:
    """Whether a finding of that severity is at or above the limit."""
    return fail_on != "none" and SEVERITIES.index(severity) <= SEVERITIES.index(fail_on)


def ending(severities: Iterable[Severity], fail_on: FailOn = _DEFAULT, *, known: bool) -> int:
    """The exit code. ``known``: faults were injected, and their effect is known."""
    if any(fails(severity, fail_on) for severity in severities):
        return DEVIATED
    return 0 if known else UNKNOWN


def run_ending(summary: Summary, fail_on: FailOn = _DEFAULT) -> int:
    """The exit code of a run. Nothing is known if no episode is valid: findings in invalid ones are notes.

    Of one that ended early, as after Ctrl-C, only its findings are known.
    """
    known = summary.completed and not shows_nothing(summary)
    return ending((finding.severity for finding in summary.findings), fail_on, known=known)


def shows_nothing(summary: Summary) -> str:
    """Why a run shows nothing about behaviour under faults; empty if it shows something."""
    failed = summary.lab_failed_because or summary.servers_failed_because
    return failed or nothing_known(summary.faults, summary.settings)


def early_word_of(code: int) -> str:
    """Return the word of a recording whose command ended early with this exit code."""
    return INTERRUPTED if code == interrupts.INTERRUPTED else CUT_SHORT


def run_word(summary: Summary) -> str:
    """Return the word of a run without a hypothesis. The outcome names an agent that broke.

    A run without its end has the word of its end. Whether it still runs is not in its history, see
    ``experiments.index.early_word``.
    """
    if not summary.completed:
        return INTERRUPTED if summary.interrupted else CUT_SHORT
    severities = {finding.severity for finding in summary.findings}
    if grave := [word for severity, word in FOUND.items() if severity in severities]:
        return grave[0]
    broken = [outcome for outcome in ("crash", "runaway") if outcome in summary.outcomes]
    return UNDECIDED if shows_nothing(summary) else broken[0] if broken else FINE
