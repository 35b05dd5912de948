"""A baseline: what was accepted of a recording, as a file to commit, and what a later one may not change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from wirefault.core.errors import InputError, nearest
from wirefault.core.files import read_input_bytes, write_whole
from wirefault.core.plain_data import PlainDataError, read_yaml
from wirefault.experiments.compare import Comparison, Side
from wirefault.history.judged_events import SEVERITIES, Severity
from wirefault.stats.rates import percent

BASELINE_FILE = Path("wirefault.baseline.json")
DEFAULT_FAIL_ON = "degradation > 0 %, new finding"
_RARE = 0.05  # share of episodes with a finding, for the sentence about chance
_MAX_BYTES = 50_000_000
_DEGRADATION = re.compile(r"degradation\s*>\s*(\d+(?:\.\d+)?)\s*(%|points)")
_NEW_FINDING = re.compile(rf"new\s+(?:({'|'.join(SEVERITIES)})\s+)?finding")


class KnownFinding(BaseModel):
    """A finding, matched in another recording by rule and call, see ``is_same``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    rule: str
    call: str
    """Link, and the call's name without numbers and ids; empty for findings about a whole episode."""
    address: str = ""
    """The same call by its server's address, since commands name links in different ways."""
    question: str = ""
    """Of an audit: its question and the call that had the fault."""
    severity: Severity
    text: str
    """The first one's sentence."""

    def is_same(self, other: KnownFinding) -> bool:
        """Whether both are about the same event.

        Only experiments have arms and only audits have questions, so these differ only if both have one.
        """
        named = ((self.arm, other.arm), (self.question, other.question))
        return (
            self.rule == other.rule
            and (self.call == other.call or (bool(self.address) and self.address == other.address))
            and all(one == another or "" in (one, another) for one, another in named)
        )


def missing_in(others: Sequence[KnownFinding], findings: Iterable[KnownFinding]) -> list[KnownFinding]:
    """Return the findings that are not among the others."""
    return [each for each in findings if not any(each.is_same(other) for other in others)]


class Baseline(BaseModel):
    """An accepted recording, and its date."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wirefault_baseline: Literal[1] = 1
    accepted: datetime
    title: str = ""
    side: Side
    findings: Annotated[Sequence[KnownFinding], Field(default_factory=list)]

    def age_text(self, now: datetime) -> str:
        """``accepted 12 days ago``; a clock that runs behind is ``today``."""
        days = max((now - self.accepted).days, 0)
        return "accepted " + ("today" if days == 0 else "yesterday" if days == 1 else f"{days} days ago")


def accepted(side: Side, findings: Iterable[KnownFinding], title: str, now: datetime) -> Baseline:
    """The baseline of a recording, without its prompts."""
    arms = {name: replace(arm, prompts={}) for name, arm in side.arms.items()}
    return Baseline(accepted=now, title=title, side=replace(side, arms=arms), findings=list(findings))


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Write the file as a whole, or not at all. Raises ``InputError``."""
    try:
        write_whole(file, (baseline.model_dump_json(indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def read_baseline(file: Path) -> Baseline:
    """Read a baseline. Raises ``InputError`` with the file and the key."""
    try:
        data = read_input_bytes(file, _MAX_BYTES)
        return TypeAdapter(Baseline).validate_python(read_yaml(data.decode(), str(file)))
    except OSError as error:
        hint = "; wirefault baseline accept RUN writes one" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{file}: {error.strerror}{hint}") from None
    except (UnicodeDecodeError, PlainDataError) as error:
        raise InputError(str(error) if isinstance(error, PlainDataError) else f"{file}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InputError(f"{file}: not a baseline of this version: {place}: {first['msg']}") from None


@dataclass(frozen=True)
class FailOn:
    """The conditions of failure. ``degradation``: the accepted loss of the success rate, as a share."""

    degradation: float | None = None
    new_findings: frozenset[Severity] = frozenset()
    needs_success: bool = True
    """Whether an arm that was not judged in the first is unknown; otherwise it is passed over."""


def read_fail_on(text: str | None) -> FailOn:
    """Read ``degradation > 5 %, new finding``; None is the default. Raises ``InputError``."""
    if text is None:
        return replace(read_fail_on(DEFAULT_FAIL_ON), needs_success=False)
    margin: float | None = None
    severities: set[Severity] = set()
    for term in filter(None, (part.strip() for part in text.split(","))):
        if degradation := _DEGRADATION.fullmatch(term):
            margin = float(degradation[1]) / 100
            if margin > 1:
                raise InputError(f"--fail-on: {term}: a success rate cannot fall by more than 100 %")
        elif new := _NEW_FINDING.fullmatch(term):
            severities |= {each for each in SEVERITIES if each == new[1] or (not new[1] and each != "note")}
        else:
            forms = ("degradation > 5 %", "new finding", *(f"new {each} finding" for each in SEVERITIES))
            raise InputError(f"--fail-on: unknown condition {term!r}{nearest(term, forms)}")
    if margin is None and not severities:
        raise InputError(f"--fail-on: no condition; for example {DEFAULT_FAIL_ON!r}")
    return FailOn(margin, frozenset(severities))


@dataclass(frozen=True)
class Gate:
    """Whether a pipeline passes, and why not."""

    failed: Sequence[str]
    unknown: Sequence[str]
    new: Sequence[KnownFinding]
    """Findings of the second recording that the first did not have, of any severity."""
    gone: Sequence[KnownFinding]
    chance: str = ""
    """How likely the first recording lacks a rare finding of an unchanged agent, if a new one failed."""

    @property
    def word(self) -> Literal["failed", "unknown", "passed"]:
        return "failed" if self.failed else "unknown" if self.unknown else "passed"


def gate(
    comparison: Comparison,
    fail_on: FailOn,
    first: Sequence[KnownFinding],
    second: Sequence[KnownFinding],
    accepted_side: Side | None = None,
) -> Gate:
    """Apply the conditions. A degradation counts if its whole interval is beyond the margin.

    Arms that are not in both recordings, and what the second does not show, leave the result unknown.
    """
    new = missing_in(first, second)
    failed = [
        f"new {each.severity} finding{f' in {each.arm}' if each.arm else ''}: {each.text}"
        for each in new
        if each.severity in fail_on.new_findings
    ]
    arms = {each.arm for each in new if each.severity in fail_on.new_findings}
    chance = _chance(accepted_side, arms) if accepted_side and arms else ""
    unknown = [f"{name} is in one of them only" for name in comparison.unmatched]
    unknown += [f"{arm.arm}: {arm.unknown['second']}" for arm in comparison.arms if "second" in arm.unknown]
    if fail_on.degradation is not None:
        degraded, open_ = _degradations(comparison, fail_on.degradation, needs_success=fail_on.needs_success)
        failed, unknown = [*failed, *degraded], [*unknown, *open_]
    return Gate(failed, unknown, new, missing_in(second, first), chance)


def _chance(side: Side, arms: Iterable[str]) -> str:
    """Return how often a finding of 5 % of the episodes is missing in the smallest of these arms."""
    of_side = [
        side.arms[name or side.default_arm or ""] for name in arms if (name or side.default_arm) in side.arms
    ]
    sizes = [sum(outcome is not None for outcome in arm.outcomes.values()) for arm in of_side]
    if not sizes or not min(sizes):
        return ""
    missing = percent((1 - _RARE) ** min(sizes))
    return (
        f"a new finding may be chance: one that an unchanged agent has in {percent(_RARE)} of its episodes"
        f" is missing in {missing} of recordings with {min(sizes)} episodes"
    )


def _degradations(
    comparison: Comparison, margin: float, *, needs_success: bool
) -> tuple[list[str], list[str]]:
    failed, unknown = [], []
    for arm in comparison.arms:
        success, best, worst = arm.success, arm.best, arm.worst
        if not arm.can_fall if arm.has_success else not needs_success:
            continue
        if success is None or best is None or worst is None:
            unknown.append(f"{arm.arm}: no episode has an outcome in both")
        elif best.high < -margin:
            low, high = percent(-success.high), percent(-success.low)
            failed.append(
                f"{arm.arm}: degradation {percent(-success.value)} [{low}, {high}], n = {success.n},"
                f" is beyond {percent(margin)}"
            )
        elif worst.high < -margin:
            unknown.append(f"{arm.arm}: the {arm.open} episodes without an outcome could decide")
    return failed, unknown
