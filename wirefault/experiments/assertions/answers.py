"""Assertions on the answer, and on how an episode ended."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from wirefault.core.plain_data import checked_pattern, occurs
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.episode_view import EpisodeView, NotRecorded, display_text
from wirefault.history.events import AttemptEnded
from wirefault.judging.checker import CheckResult


class AnswerContains(Assertion):
    """The answer contains the text; an episode without an answer fails."""

    name = "answer_contains"
    main = "text"
    needs = "a wiring that defines where to find the answer"

    text: str = Field(min_length=1)
    ignore_case: bool = Field(False, description="ignore upper and lower case")

    @property
    def expected(self) -> str:
        return f"an answer with {self.text!r}"

    def check(self, view: EpisodeView) -> CheckResult:
        answer = view.answer or ""
        return _result(view, answer, _contains(answer, self.text, self.ignore_case))


class AnswerMatches(Assertion):
    """The pattern matches somewhere in the answer; an episode without an answer fails."""

    name = "answer_matches"
    main = "pattern"
    needs = AnswerContains.needs

    pattern: Annotated[str, AfterValidator(checked_pattern)] = Field(description="a regular expression (RE2)")

    @property
    def expected(self) -> str:
        return f"an answer that matches {self.pattern}"

    def check(self, view: EpisodeView) -> CheckResult:
        answer = view.answer
        return _result(view, answer or "", answer is not None and occurs(self.pattern, answer))


class AnswerLacks(Assertion):
    """The answer does not contain the text; unknown without an answer."""

    name = "answer_lacks"
    main = "text"
    needs = "an answer, and a wiring that defines where to find it"

    text: str = Field(min_length=1)
    ignore_case: bool = Field(False, description="ignore upper and lower case")

    @property
    def expected(self) -> str:
        return f"an answer without {self.text!r}"

    def check(self, view: EpisodeView) -> CheckResult:
        answer = view.answer
        if not answer:
            raise NotRecorded("the subject gave no answer that could lack it")
        return _result(view, answer, not _contains(answer, self.text, self.ignore_case))


def _contains(answer: str, text: str, ignore_case: bool) -> bool:
    return text.casefold() in answer.casefold() if ignore_case else text in answer


def _result(view: EpisodeView, answer: str, passed: bool) -> CheckResult:
    measured = display_text(answer) or "no answer"
    return CheckResult(passed=passed, measured=measured, evidence=(view.last_end.id,))


def _how_it_ended(view: EpisodeView) -> str:
    end = view.last_end.event
    return f"{end.ended_by}: {display_text(end.error)}" if end.error else f"ended by {end.ended_by}"


class Completes(Assertion):
    """The subject ended normally with an answer or a report, whatever its content."""

    name = "completes"
    needs = "the end of the attempt"

    @property
    def expected(self) -> str:
        return "an answer"

    def check(self, view: EpisodeView) -> CheckResult:
        reported = view.turn is None and view.last_end.event.ended_by == "report"
        answered = bool(view.answer) or reported
        measured = "an answer" if answered else _how_it_ended(view)
        return CheckResult(passed=answered, measured=measured, evidence=(view.last_end.id,))


class ErrorExpected(Assertion):
    """The subject ended with an error, or reported a failure, whose text matches the pattern."""

    name = "error_expected"
    main = "pattern"
    needs = "the text of the error"

    pattern: Annotated[str, AfterValidator(checked_pattern)] = Field(description="a regular expression (RE2)")

    @property
    def expected(self) -> str:
        return f"an error that matches {self.pattern}"

    def check(self, view: EpisodeView) -> CheckResult:
        end, evidence = view.last_end.event, (view.last_end.id,)
        error = _error_of(end)
        if error is None or (view.turn is not None and view.answer is not None):
            return CheckResult(passed=False, measured="no error", evidence=evidence)
        if not error:
            raise NotRecorded(f"it ended by {end.ended_by}, and no error's text is in the history")
        error_text = display_text(error)
        return CheckResult(passed=occurs(self.pattern, error), measured=error_text, evidence=evidence)


def _error_of(end: AttemptEnded) -> str | None:
    """The error text; empty if unknown, None without an error."""
    if end.report is not None and end.report.status == "failed":
        return end.response or end.report.answer
    if end.ended_by in ("report", "text"):
        return None
    return ": ".join(part for part in (end.error_type, end.error) if part)
