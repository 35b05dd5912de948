"""The claim axis: the subject's claim about its work, as its report's status or in its prose. Pure.

Prose is evidence only of the claim, never of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.history.events import AttemptEnded
from wirefault.history.judged_events import Claim, ValueAxis
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.reading.claims import ProseClaim, claims_failure, read_claim
from wirefault.judging.reading.context import SENTENCE_END


def judge_claim(
    oracle: Oracle | None,
    ended: AttemptEnded,
    prompt: str = "",
    value: ValueAxis = "not_applicable",
    earlier: Sequence[str] = (),
) -> Claim:
    """The report's status; without a report, the claim in the prose answer; ``none`` without an answer.

    A status ``done`` whose sentence says that the acts of the oracle failed is ``unsure``.

    A command that gave the reason of its failure and ended with a nonzero exit code claims ``failed``. An
    answer that is exactly the oracle's ``done_if_text`` claims ``done``. ``value``: the same answer's axis.
    ``earlier``: replies of a conversation that may be about the acts of the oracle, too. ``unclear`` if one
    says that they were done and another that they failed, which may be about something else.
    """
    last = _last_claim(oracle, ended, prompt, value)
    if not earlier or last == "none" or oracle is None or oracle.claims == "off" or not oracle.asked_acts:
        return last
    claims = {last, *(read_claim(each, prompt, oracle.asked_acts) for each in earlier)}
    definite = claims & {"done", "failed"}
    return "unclear" if len(definite) == 2 else definite.pop() if definite else last


def _last_claim(oracle: Oracle | None, ended: AttemptEnded, prompt: str, value: ValueAxis) -> Claim:
    """The claim of the answer alone."""
    if ended.report is not None:
        return "unsure" if is_contradictory(oracle, ended, prompt) else ended.report.status
    if ended.ended_by != "text":
        return "none"
    if ended.exited_with_reason:
        return "failed"
    return "done" if is_exact_text(oracle, ended) else _prose_claim(oracle, ended.response, prompt, value)


def is_contradictory(oracle: Oracle | None, ended: AttemptEnded, prompt: str) -> bool:
    """Whether a report has the status ``done`` and a sentence that says that the oracle's acts failed."""
    report = ended.report
    if report is None or report.status != "done" or oracle is None or not oracle.asked_acts:
        return False
    return oracle.claims != "off" and claims_failure(report.answer, prompt, oracle.asked_acts)


def _prose_claim(oracle: Oracle | None, response: str, prompt: str, value: ValueAxis) -> ProseClaim:
    """The answer's claim about the acts in the prompt, else in the oracle, else about any act.

    If nothing must change, an answer without a readable right value may still report a failure.
    """
    if oracle is None:
        return read_claim(response, prompt)
    if oracle.claims == "off":
        return "unclear"
    if oracle.asked_acts:
        return read_claim(response, prompt, oracle.asked_acts)
    if value not in ("none", "wrong", "unreadable"):
        return "unclear"
    return "failed" if _says_failed(response) else "unclear"


def reports_failure(oracle: Oracle | None, ended: AttemptEnded) -> bool:
    """Whether a prose answer to a question only says that the agent could not find the answer.

    Another sentence may have found it: ``It is 8.4 °C. I can't tell the humidity.``
    """
    is_prose = ended.report is None and ended.ended_by == "text" and not is_exact_text(oracle, ended)
    asks = oracle is not None and oracle.claims != "off" and not oracle.asked_acts
    is_one_sentence = not SENTENCE_END.search(ended.response.strip()[:-1])
    return is_prose and asks and is_one_sentence and _says_failed(ended.response)


def _says_failed(response: str) -> bool:
    return "failed" in (read_claim(response), read_claim(response, acts=frozenset()))


def is_exact_text(oracle: Oracle | None, ended: AttemptEnded) -> bool:
    """Whether the answer, stripped, is the oracle's ``done_if_text``."""
    if oracle is None or oracle.done_if_text is None or ended.report is not None:
        return False
    return ended.response.strip() == oracle.done_if_text.strip()
