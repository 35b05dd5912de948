"""Answers to handoffs by rule, so that an experiment needs no person.

A file is a list under ``answers``; the first rule that fits a call decides::

    answers:
      - {tool: send_message, reason: unknown_effect, answer: deny, after: 0.5}
      - {answer: approve}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.core.errors import InputError, error_text
from wirefault.core.files import read_input
from wirefault.core.plain_data import PlainDataError, read_yaml

Answer = Literal["approve", "deny", "never"]


class ApprovalRule(BaseModel):
    """One rule; a condition that is left out fits every call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: Answer
    tool: str = ""
    reason: Literal["", "unknown_effect", "exhausted"] = ""
    after: float = Field(0.0, ge=0, le=3600, description="seconds until the answer comes")

    def fits(self, tool: str, reason: str) -> bool:
        return self.tool in ("", tool) and self.reason in ("", reason)


@dataclass(frozen=True)
class Approvals:
    """The rules of a run, and their source in words."""

    rules: Sequence[ApprovalRule] = ()
    source: str = ""

    def answer_to(self, tool: str, reason: str) -> tuple[ApprovalRule, str] | None:
        """Return the rule that decides and its name; None if a person has to."""
        for number, rule in enumerate(self.rules, start=1):
            if rule.fits(tool, reason):
                return rule, f"rule {number} of {self.source}"
        return None


def load_approvals(answers: str) -> Approvals:
    """Return the rules of the parameter ``answers``: empty for a person, an answer to every call, or a file.

    Raises ``InputError``.
    """
    if not answers:
        return Approvals()
    if answers in ("approve", "deny", "never"):
        return Approvals([ApprovalRule.model_validate({"answer": answers})], "RECOVERY")
    path = Path(answers)
    try:
        data = read_yaml(read_input(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = error_text(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"handoff(answers={answers}): cannot read the file: {why}") from None
    except PlainDataError as error:
        raise InputError(str(error)) from None
    rules = data.get("answers") if isinstance(data, dict) else None
    if not isinstance(rules, list):
        raise InputError(f"{path}: must have a list of rules under `answers`")
    checked: list[ApprovalRule] = []
    for number, rule in enumerate(rules, start=1):
        try:
            checked.append(ApprovalRule.model_validate(rule))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise InputError(f"{path}: answers: rule {number}: {key}: {first['msg']}") from None
    return Approvals(checked, str(path))
