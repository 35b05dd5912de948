"""An experiment's results for people: a line per arm, the effect of its faults and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from wirefault.experiments.effects import FaultEffect
from wirefault.experiments.figures import BUDGET_STRIKES
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.verdict import ArmResult, Check, ExperimentVerdict
from wirefault.history.judged_events import SEVERITIES
from wirefault.report.comparison import difference_text
from wirefault.report.experiment_plan import population_line, radius_lines
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

MAX_REASONS = 5
MAX_EPISODES = 5
MAX_ROWS = 12
"""Rows that are printed without ``--verbose``; of more, the others are named or counted."""
_STYLES: Mapping[ExperimentVerdict, str] = {
    "held": "green",
    "deviated": "bold red",
    "unknown": "yellow",
    "aborted": "bold magenta",
}


def arm_lines(arms: Sequence[ArmResult], *, verbose: bool = False) -> Iterator[Text]:
    """Yield a line for each arm; of many, the names with each success rate unless ``verbose``."""
    if verbose or len(arms) <= MAX_ROWS:
        yield from (arm_line(arm, verbose=verbose) for arm in arms)
        return
    names: dict[str, list[str]] = {}
    for arm in arms:
        names.setdefault(arm.failure or f"success {_success_text(arm)}", []).append(arm.name)
    for text, alike in names.items():
        yield Text(one_line(f"{text}: {', '.join(alike)}"))


def arm_line(arm: ArmResult, *, verbose: bool = False) -> Text:
    """Return the arm's name and figures."""
    text = arm_text(arm, verbose=verbose)
    return Text(f"{arm.name:<20} {text}", style="bold magenta" if arm.failure else "")


def arm_text(arm: ArmResult, *, verbose: bool = False) -> str:
    """Return the arm's success and delivered faults, or why it failed."""
    if arm.failure:
        return one_line(arm.failure)
    faults, strikes = arm.measures["faults_delivered"].text, arm.measures[BUDGET_STRIKES]
    budgets = f", budget strikes {strikes.text}" if strikes.bounds and strikes.bounds.low else ""
    claims = f"; {arm.claims.text}" if arm.claims.n else ""
    return f"success {_success_text(arm, verbose=verbose)}, faults delivered {faults}{budgets}{claims}"


def _success_text(arm: ArmResult, *, verbose: bool = False) -> str:
    """Return the success rate; the interval of one episode, which rules out nothing, only if ``verbose``."""
    rate = arm.measures["success_rate"]
    if arm.waits_for:
        return f"open until {arm.waits_for}"
    if rate.n == 1 and not verbose:
        return rate.figure
    return rate.text + (
        f" ({percent(round(1 - 2 * rate.error, 6))} interval)" if rate.interval and not rate.reason else ""
    )


def print_verdict(
    console: Console,
    result: ExperimentResult,
    obstacles: Mapping[str, Sequence[str]],
    *,
    verbose: bool = False,
) -> None:
    """Print a row per statement, then the verdict in one line.

    Of many statements, those that held are counted unless ``verbose``. ``obstacles``: by arm, why a
    repetition could have another result.
    """
    judged = result.judged
    if judged is None:
        return
    table = new_table("arm", "statement", "kind", "verdict", "measured", text_columns=(0, 1, 2, 3, 4))
    table.columns[1].no_wrap = table.columns[4].no_wrap = False
    checks = judged.checks
    if len(checks) > MAX_ROWS and not verbose:
        checks = [check for check in checks if check.verdict != "held"][:MAX_ROWS]
    for check in checks:
        verdict, kind = Text(check.verdict, style=_STYLES[check.verdict]), Text(check.kind)
        statement = Text(one_line(check.statement))
        table.add_row(Text(check.arm), statement, kind, verdict, Text(measures_text(check)))
    console.print()
    if checks:
        console.print(table)
    if len(checks) < len(judged.checks):
        counts = Counter(check.verdict for check in judged.checks)
        text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        console.print(Text(f"statements: {text}; --verbose lists all"))
    lines = (
        *([population_line(result.plan)] if any(check.kind == "claim" for check in judged.checks) else ()),
        *radius_lines(result.plan),
        *invalid_lines(result.arms),
        *difference_lines(result.arms),
        *reproducible_lines(obstacles),
    )
    for line in lines:
        console.print(Text(line))
    console.print()
    if result.rollback:
        console.print(f"rollback: {result.rollback}", markup=False)
    console.print(Text(f"{judged.verdict}: {one_line(judged.because)}", style=_STYLES[judged.verdict]))


def invalid_lines(arms: Sequence[ArmResult]) -> Iterator[str]:
    """Yield why episodes are invalid, a few per arm; they widen the bounds of the figures."""
    for arm in arms:
        for what, reasons in (
            ("invalid", [f"{episode}: {why}" for episode, why in arm.invalid.items()]),
            ("invalid before, and run again", arm.reruns),
        ):
            for reason in reasons[:MAX_REASONS]:
                yield f"{arm.name}, {what}: {one_line(reason)}"
            if len(reasons) > MAX_REASONS:
                yield f"{arm.name}, {what}: {len(reasons) - MAX_REASONS} more; --json has them all"


def difference_lines(arms: Sequence[ArmResult]) -> Iterator[str]:
    """Yield the findings by comparison with the control, one for each rule of an arm, the gravest first."""
    for arm in arms:
        findings = sorted(arm.differences, key=lambda finding: SEVERITIES.index(finding.severity))
        for rule in dict.fromkeys(finding.rule for finding in findings):
            alike = [finding for finding in findings if finding.rule == rule]
            first = alike[0]
            others = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
            text = f"{first.headline or first.text} (episode {first.episode}{others})"
            yield one_line(f"{arm.name}, {first.severity} ({rule}): {text}")


def reproducible_lines(obstacles: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield whether the same seed gives the same result, or the arms where it depends on order or time."""
    for arm, reasons in obstacles.items():
        yield f"{arm}, reproducible: no, because {one_line('; '.join(reasons))}"
    if not obstacles:
        yield "reproducible: yes"


def measures_text(check: Check) -> str:
    """Return the figures that decided a statement, on one line."""
    return one_line("; ".join(_details(check)))


def _details(check: Check) -> Iterator[str]:
    if check.figures:
        yield check.figures
    if check.message:
        yield check.message
    if check.episodes:
        others = len(check.episodes) - MAX_EPISODES
        more = f" and {others} more" if others > 0 else ""
        yield f"episodes {', '.join(check.episodes[:MAX_EPISODES])}{more}"


def print_effects(console: Console, effects: Sequence[FaultEffect], *, verbose: bool = False) -> None:
    """Print a row for each fault of each arm, if there are any.

    Of many, the first unless ``verbose``; then also those of one pair, which rules out nothing.
    """
    all_effects = effects
    if not verbose:
        effects = [each for each in effects if each.success is None or each.success.n > 1][:MAX_ROWS]
    if not effects:
        return
    columns = (
        "arm",
        "fault",
        "planned",
        "drawn",
        "alone",
        "control",
        "faulted",
        "success, faulted - control",
    )
    table = new_table(*columns, text_columns=(0, 1, 7))
    table.columns[1].no_wrap = table.columns[7].no_wrap = False
    for effect in effects:
        control = f"{effect.control} of {effect.control_judged}"
        faulted = f"{effect.struck} of {effect.struck_judged}"
        figures = (effect.planned, effect.drawn, effect.alone, control, faulted)
        success = "unknown" if effect.success is None else difference_text(effect.success)
        left_out = f", {effect.open} without an outcome" if effect.open else ""
        table.add_row(Text(effect.arm), Text(effect.fault), *map(str, figures), Text(success + left_out))
    console.print()
    console.print(table)
    if len(effects) < len(all_effects):
        console.print(Text(f"{len(all_effects) - len(effects)} more effects: --verbose lists all"))
    console.print(
        Text(
            "the episodes for which a fault was planned, as the control's shadows show it: successes of those"
            " with an outcome; where they are not alone, other faults have a part in it",
            style="dim",
        )
    )
