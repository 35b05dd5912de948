"""Knowledge in words, each sentence with the runs that show it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wirefault.judging.findings.finding import span_in_words
from wirefault.memory.knowledge import Affected, Knowledge, ParameterRange, Pattern, Range, Recovery
from wirefault.stats.rates import Difference


@dataclass(frozen=True)
class Learning:
    """One sentence, and the runs that it follows from."""

    text: str
    runs: tuple[str, ...]


def learnings(known: Knowledge) -> list[Learning]:
    """Sentences about the component under the fault, the effect first."""
    return list(_learnings(known))


def _learnings(known: Knowledge) -> Iterator[Learning]:
    if known.effect is not None:
        yield Learning(_effect_text(known.fault, known.effect), known.runs)
    for each in known.ranges:
        yield Learning(_range_text(each), known.runs)
    for pattern in known.patterns:
        yield Learning(_pattern_text(pattern), pattern.runs)
    for affected in known.affected:
        yield Learning(_affected_text(affected), affected.runs)
    if known.recovery.outages:
        yield Learning(_recovery_text(known.recovery), known.runs)


def _points(share: float) -> str:
    return f"{100 * share:.3g}"


def _between(low: float, high: float) -> str:
    return f"interval {_points(low)} to {_points(high)}"


def _effect_text(fault: str, effect: Difference) -> str:
    interval = f"{_between(effect.low, effect.high)}, {_count(effect.n, 'pair')}"
    if effect.low > 0 or effect.high < 0:
        verb = "raises" if effect.low > 0 else "lowers"
        return f"{fault} {verb} success by {_points(abs(effect.value))} percentage points ({interval})"
    return f"no effect of {fault} on success is shown: {_points(effect.value)} percentage points ({interval})"


def _range_text(each: ParameterRange) -> str:
    parts = [
        f"{verb} {each.name} {_values(doses)} in {_count(doses.n, 'episode')}"
        for verb, doses in (("survived", each.survived), ("did not survive", each.failed))
        if doses is not None
    ]
    return ", ".join(parts)


def _values(doses: Range) -> str:
    return f"{doses.low:g}" if doses.low == doses.high else f"{doses.low:g} to {doses.high:g}"


def _pattern_text(pattern: Pattern) -> str:
    faulted, calm = pattern.with_fault, pattern.without
    without = f"{calm.k} of {calm.n} without faults" if calm.n else "no episodes without faults to compare"
    return f"{pattern.rule} in {faulted.k} of {_count(faulted.n, 'episode')}; {without}"


def _affected_text(affected: Affected) -> str:
    worked = affected.worked
    interval = f"{_between(-worked.high, -worked.low)}, {_count(worked.n, 'pair')}"
    remark = "" if worked.high < 0 else ", which chance explains"
    return (
        f"{affected.component} fails or is no longer called in {_points(-worked.value)} % more"
        f" of the episodes ({interval}){remark}"
    )


def _recovery_text(recovery: Recovery) -> str:
    seconds = span_in_words(recovery.seconds or 0.0)
    mean = f"mean time to recovery {'at least ' if recovery.at_least else ''}{seconds}"
    return f"{recovery.recovered} of {_count(recovery.outages, 'outage')} recovered; {mean}"


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
