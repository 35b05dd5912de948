"""Answers of an audit, grouped by sentence: what is printed as one line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wirefault.audit.answers import Answer
from wirefault.history.judged_events import SEVERITIES, Finding

_DURATION = re.compile(r"\b(\d+(?:\.\d+)?) (ms|s)\b")


@dataclass(frozen=True)
class FindingGroup:
    """Answers with the same worst finding in the same words, apart from durations."""

    answers: Sequence[Answer]
    """At least one, each a finding."""

    @property
    def worst(self) -> Finding:
        worst = self.answers[0].worst
        assert worst is not None
        return worst

    @property
    def text(self) -> str:
        """The calls, the questions and the finding, as one sentence."""
        return f"{asked_text(self.answers)}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """The finding's text; durations that differ are a range."""
        return with_ranges([answer.worst.text for answer in self.answers if answer.worst])

    @property
    def ids(self) -> list[str]:
        return [answer.ask.id for answer in self.answers]

    @property
    def times(self) -> tuple[int, int]:
        """In how many runs it was seen, and of how many."""
        pairs = [answer.times for answer in self.answers]
        return sum(seen for seen, _ in pairs), sum(of for _, of in pairs)

    @property
    def others(self) -> list[Finding]:
        """Further findings of the same questions, one of each rule, the worst first."""
        others: dict[str, Finding] = {}
        for answer in self.answers:
            for each in answer.others:
                others.setdefault(each.rule, each)
        return sorted(others.values(), key=lambda each: SEVERITIES.index(each.severity))


def finding_groups(answers: Iterable[Answer]) -> list[FindingGroup]:
    """Return the findings, grouped by sentence, the worst first."""
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    for answer in answers:
        worst = answer.worst
        if answer.status == "finding" and worst is not None:
            sentence = _DURATION.sub(r"# \2", worst.text)
            groups.setdefault((worst.severity, worst.rule, sentence), []).append(answer)
    ordered = sorted(groups.values(), key=lambda each: each[0].ask.id)
    return sorted(map(FindingGroup, ordered), key=lambda each: SEVERITIES.index(each.worst.severity))


def asked_text(answers: Sequence[Answer]) -> str:
    """Return the calls and what happened to each, as ``POST /orders, reply lost, or it hangs``."""
    return ", or ".join(call_texts(answers))


def call_texts(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield each call once, with all that happened to it."""
    for call, sentences in _sentences_by_call(answers).items():
        yield f"{call}, {', or '.join(sentences)}"


def _sentences_by_call(answers: Sequence[Answer]) -> dict[str, list[str]]:
    by_call: dict[str, dict[str, None]] = {}
    for answer in answers:
        by_call.setdefault(answer.ask.call.text, {})[answer.ask.sentence] = None
    return {call: list(sentences) for call, sentences in by_call.items()}


def with_ranges(texts: Sequence[str]) -> str:
    """Return the first text, with a range for each duration that differs in the others."""
    columns = list(zip(*(_DURATION.findall(text) for text in texts), strict=True))
    durations = iter(columns)

    def spread(match: re.Match[str]) -> str:
        numbers = sorted((number for number, _ in next(durations)), key=float)
        return match[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]} {match[2]}"

    return _DURATION.sub(spread, texts[0])
