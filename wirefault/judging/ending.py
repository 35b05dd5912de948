"""The exit code of a command without a hypothesis: one policy for all of them. Pure.

A hypothesis decides where there is one, see ``experiments.verdict``. Without one a command ends with 1 if it
found something at or above ``--fail-on``, with 2 if no fault was injected or nothing is known about it, else
with 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from wirefault.core.errors import DEVIATED, UNKNOWN
from wirefault.history.judged_events import SEVERITIES, Severity
from wirefault.judging.account import nothing_known

if TYPE_CHECKING:
    from wirefault.judging.summary import Summary

# what a run without a hypothesis showed: the one word of list, page, Markdown and JUnit
FOUND: Mapping[Severity, str] = {"harmful": "harm found", "risky": "risk found"}
FINE, UNDECIDED, CUT_SHORT, NO_VERDICT = "nothing harmful found", "unknown", "ended early", "no verdict"
INTERRUPTED = "interrupted"
"""Of an experiment or an audit that can be resumed."""
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


def run_word(summary: Summary) -> str:
    """Return the word of a run without a hypothesis. The outcome names an agent that broke."""
    severities = {finding.severity for finding in summary.findings}
    if grave := [word for severity, word in FOUND.items() if severity in severities]:
        return grave[0]
    if summary.duration_s is None:  # no end was recorded
        return NO_VERDICT
    if not summary.completed:
        return CUT_SHORT
    broken = [outcome for outcome in ("crash", "runaway") if outcome in summary.outcomes]
    return UNDECIDED if shows_nothing(summary) else broken[0] if broken else FINE
