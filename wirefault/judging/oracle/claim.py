"""The claim axis: what the subject says of its own work, from its report. Pure; prose is not evidence."""

from __future__ import annotations

from typing import Literal

from wirefault.history.events import AttemptEnded
from wirefault.judging.oracle.expect import Oracle

Claim = Literal["done", "failed", "unsure", "none", "unclear"]


def judge_claim(oracle: Oracle | None, ended: AttemptEnded) -> Claim:
    """The report's status. Without a report: ``none`` if there is no answer at all, ``unclear`` if there is.

    A text that is exactly the oracle's ``done_if_text`` counts as ``done``.
    """
    if ended.report is not None:
        return ended.report.status
    if ended.ended_by != "text":
        return "none"
    return "done" if is_exact_text(oracle, ended) else "unclear"


def is_exact_text(oracle: Oracle | None, ended: AttemptEnded) -> bool:
    """Whether the answer, without white space around it, is the text that the oracle takes as done."""
    if oracle is None or oracle.done_if_text is None or ended.report is not None:
        return False
    return ended.response.strip() == oracle.done_if_text.strip()
