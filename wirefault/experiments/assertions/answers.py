"""Assertions on what the subject told its user."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from wirefault.core.patterns import checked_pattern, occurs
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.assertions.result import AssertionResult, NotRecorded, shown_text


class AnswerContains(Assertion):
    """The text stands in the answer; what gave no answer fails."""

    name = "answer_contains"
    main = "text"
    needs = "an answer that the wiring tells where to find"

    text: str = Field(min_length=1)
    ignore_case: bool = Field(False, description="large and small letters are the same")

    @property
    def expected(self) -> str:
        return f"an answer with {self.text!r}"

    def check(self, view: EpisodeView) -> AssertionResult:
        answer = view.answer or ""
        return _told(view, answer, _contains(answer, self.text, self.ignore_case))


class AnswerMatches(Assertion):
    """The pattern matches somewhere in the answer; what gave no answer fails."""

    name = "answer_matches"
    main = "pattern"
    needs = AnswerContains.needs

    pattern: Annotated[str, AfterValidator(checked_pattern)] = Field(description="a regular expression (RE2)")

    @property
    def expected(self) -> str:
        return f"an answer that matches {self.pattern}"

    def check(self, view: EpisodeView) -> AssertionResult:
        answer = view.answer
        return _told(view, answer or "", answer is not None and occurs(self.pattern, answer))


class AnswerLacks(Assertion):
    """The text stands nowhere in the answer; where there is no answer it is unknown."""

    name = "answer_lacks"
    main = "text"
    needs = "an answer, and one that the wiring tells where to find"

    text: str = Field(min_length=1)
    ignore_case: bool = Field(False, description="large and small letters are the same")

    @property
    def expected(self) -> str:
        return f"an answer without {self.text!r}"

    def check(self, view: EpisodeView) -> AssertionResult:
        answer = view.answer
        if not answer:
            raise NotRecorded("the subject gave no answer that could lack it")
        return _told(view, answer, not _contains(answer, self.text, self.ignore_case))


def _contains(answer: str, text: str, ignore_case: bool) -> bool:
    return text.casefold() in answer.casefold() if ignore_case else text in answer


def _told(view: EpisodeView, answer: str, passed: bool) -> AssertionResult:
    measured = shown_text(answer) or "no answer"
    return AssertionResult(passed=passed, measured=measured, evidence=(view.last_end.id,))
