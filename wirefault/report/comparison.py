"""Two recordings compared, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from wirefault.experiments.baseline import Baseline, Gate
from wirefault.experiments.compare import ArmComparison, Change, Comparison
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import Difference, percent

_STYLES: Mapping[Change, str] = {"worse": "bold red", "not worse": "green", "unknown": "yellow"}
_MAX_EPISODES = 20


def comparison_json(
    comparison: Comparison, gate: Gate | None = None, baseline: Baseline | None = None
) -> dict[str, Any]:
    """Return one JSON object; unknown values are null."""
    whole = {**asdict(comparison), "change": comparison.change}
    if baseline is not None:
        whole["baseline"] = {"accepted": baseline.accepted.isoformat(), "title": baseline.title}
    if gate is not None:
        new, gone = ([each.model_dump() for each in side] for side in (gate.new, gate.gone))
        reasons = {"failed": list(gate.failed), "unknown": list(gate.unknown)}
        changes = {"new_findings": new, "gone_findings": gone, "chance": gate.chance}
        whole["gate"] = {"result": gate.word, **reasons, **changes}
    return whole


def print_gate(console: Console, gate: Gate, age: str) -> None:
    """Print the findings that differ, the conditions that failed, and the result."""
    for sign, findings in (("new", gate.new), ("not seen", gate.gone)):
        for each in findings:
            where = f"{each.arm}: " if each.arm else ""
            console.print(Text(one_line(f"{sign}, {each.severity}: {where}{each.text}")))
    for line in gate.failed:
        console.print(Text(one_line(f"failed: {line}"), style="bold red"))
    if gate.chance:
        console.print(Text(gate.chance))
    for line in gate.unknown:
        console.print(Text(one_line(f"unknown: {line}"), style="yellow"))
    style = {"failed": "bold red", "unknown": "yellow", "passed": "green"}[gate.word]
    console.print(Text(f"{gate.word}{f' against the baseline, {age}' if age else ''}", style=style))


def print_comparison(console: Console, comparison: Comparison, *, concludes: bool) -> None:
    """Print the differences of each arm and of the success rates, then the conclusion.

    ``concludes``: False where conditions decide, see ``print_gate``.
    """
    console.print(Text(f"first   {comparison.first}\nsecond  {comparison.second}"), soft_wrap=True)
    for arm in comparison.arms:
        console.print()
        _print_arm(console, arm)
    console.print()
    for name in comparison.unmatched:
        console.print(Text(f"skipped the arm {name}: it is in one of them only", style="yellow"))
    if concludes:
        console.print(Text(f"the second is {_in_words(comparison)}", style=_STYLES[comparison.change]))


def _print_arm(console: Console, arm: ArmComparison) -> None:
    table = new_table(arm.arm, "first", "second", text_columns=(0, 1, 2))
    for name, (first, second) in arm.measures.items():
        table.add_row(Text(name), Text(one_line(first)), Text(one_line(second)))
    for name, (first, second) in arm.assertions.items():
        table.add_row(Text(one_line(name)), Text(one_line(first)), Text(one_line(second)))
    for name, (first, second) in arm.differs.items():
        sides = (Text(one_line(side) or "none") for side in (first, second))
        table.add_row(Text(name, style="yellow"), *sides)
    for column in table.columns[1:]:
        column.no_wrap = False
    console.print(table)
    for text in comparison_sentences(arm):
        console.print(Text(one_line(text)))
    for episode in arm.changed[:_MAX_EPISODES]:
        changed = f"  {episode.episode}  {episode.first} -> {episode.second}  {one_line(episode.prompt)}"
        console.print(Text(changed, no_wrap=True, overflow="ellipsis"))
    if len(arm.changed) > _MAX_EPISODES:
        console.print(f"  and {len(arm.changed) - _MAX_EPISODES} more: see --json")


def comparison_sentences(arm: ArmComparison) -> Iterator[str]:
    """Yield the difference of the success rates, and the episodes that it leaves out."""
    for side, why in arm.unknown.items():
        yield f"the {side}: {why}"
    if not arm.has_success:
        yield "success is not compared: no episode of the first was judged"
        return
    kind = "pairs" if arm.paired else "not paired, since they share no episode"
    if arm.success is None:
        yield "difference of the success rates: unknown, no episode has an outcome in both"
    else:
        sure = f"{percent(arm.confidence)} interval"
        yield f"difference of the success rates: {difference_text(arm.success)} ({kind}; {sure})"
    if arm.open:
        yield f"episodes without an outcome on both sides: {arm.open}; left out, and they could decide"
    if arm.unmatched:
        yield f"episodes that only one of them has: {arm.unmatched}"
    if arm.success is None:
        yield "outcomes that changed: unknown"
    else:
        yield f"outcomes that changed: {len(arm.changed)}"


def difference_text(difference: Difference) -> str:
    """Return the difference in percentage points, with the interval and n."""
    shares = (difference.value, difference.low, difference.high)
    value, low, high = (f"{100 * share:+.3g}" for share in shares)
    return f"{value} points [{low}, {high}], n = {difference.n}"


def verdict_of(comparison: Comparison) -> str:
    """Return the verdict on the second side in words: not judged where success is not compared."""
    without = [arm.arm for arm in comparison.arms if not arm.has_success]
    judged = [arm for arm in comparison.arms if arm.has_success]
    if comparison.change == "unknown" and without and not comparison.unmatched:
        if not judged:
            return "not judged"
        if all(arm.change == "not worse" for arm in judged):
            return f"not worse; not judged in {', '.join(without)}"
    return "perhaps worse" if comparison.change == "unknown" else comparison.change


def _in_words(comparison: Comparison) -> str:
    verdict = verdict_of(comparison)
    if "not judged" in verdict:
        return f"{verdict}: success is not compared, and a finding decides only with --fail-on"
    if verdict != "perhaps worse":
        return "worse, beyond the interval" if verdict == "worse" else "not shown to be worse"
    if comparison.unmatched:
        return f"{verdict}: an arm is in one of them only"
    if any(arm.unknown for arm in comparison.arms):
        return f"{verdict}: a recording does not show enough"
    return f"{verdict}: unknown outcomes, or the error that the arms share, could decide it"
