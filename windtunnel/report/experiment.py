"""What a person reads of an experiment: its plan, a line per arm, and the verdict with what decided it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from windtunnel.experiments.arms import ExperimentPlan, PlannedArm
from windtunnel.experiments.flying import FlownExperiment
from windtunnel.experiments.measures import percent_of
from windtunnel.experiments.stress import StressLevel, holds_up_to
from windtunnel.experiments.verdict import Check, ExperimentVerdict, FlownArm
from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.report.fault_catalogue import set_rows
from windtunnel.report.tables import new_table, one_line

_STYLES: Mapping[ExperimentVerdict, str] = {"held": "green", "deviated": "bold red", "unknown": "yellow"}
_MOST_EPISODES = 5
_OF_LEVELS = ("success_rate", "faults_delivered", "p50", "p95")


def arm_line(arm: FlownArm) -> Text:
    """Its success and what it met, or why it shows nothing."""
    if arm.failure:
        return Text(f"{arm.name:<20} {one_line(arm.failure)}", style="bold magenta")
    success, faults = arm.measures["success_rate"].shown, arm.measures["faults_delivered"].shown
    return Text(f"{arm.name:<20} success {success}, faults delivered {faults}")


def print_verdict(console: Console, flight: FlownExperiment) -> None:
    """A row per statement, then the verdict in one line."""
    judged = flight.judged
    if judged is None:
        console.print(Text("no verdict: it was not flown to its end", style="bold magenta"))
        return
    table = new_table("arm", "statement", "verdict", "measured", text_columns=(0, 1, 2, 3))
    table.columns[1].no_wrap = table.columns[3].no_wrap = False
    for check in judged.checks:
        verdict = Text(check.verdict, style=_STYLES[check.verdict])
        table.add_row(Text(check.arm), Text(one_line(check.statement)), verdict, Text(shown_measures(check)))
    console.print()
    console.print(table)
    console.print()
    console.print(Text(f"{judged.verdict}: {one_line(judged.because)}", style=_STYLES[judged.verdict]))


def shown_measures(check: Check) -> str:
    """What a statement was decided by, on one line."""
    return one_line("; ".join(_details(check)))


def _details(check: Check) -> Iterator[str]:
    shown = ", ".join(f"{name} {figure}" for name, figure in check.measured.items())
    if shown:
        yield shown
    if check.message:
        yield check.message
    if check.episodes:
        others = len(check.episodes) - _MOST_EPISODES
        more = f" and {others} more" if others > 0 else ""
        yield f"episodes {', '.join(check.episodes[:_MOST_EPISODES])}{more}"


def print_plan(console: Console, plan: ExperimentPlan) -> None:
    """What would be flown, how often each arm's faults act, and the toxics that the seed draws."""
    console.print(Text(one_line(plan.experiment.title), style="bold"))
    each = f"{len(plan.arms)} arms of {len(plan.prompts)} episodes each"
    console.print(f"{each}: {plan.episodes} episodes, seed {plan.seed}")
    table = new_table("arm", "must hold", "toxics armed", text_columns=(0, 1, 2))
    table.columns[1].no_wrap = table.columns[2].no_wrap = False
    for arm in plan.arms:
        toxics = ", ".join(f"{name} x{count}" for name, count in plan.toxics_drawn(arm).items())
        table.add_row(Text(arm.name), Text(one_line("; ".join(arm.hypothesis))), Text(toxics or "none"))
    console.print(table)
    rates = new_table("arm", "fault", "links", "true rate", "conditions", text_columns=(0, 1, 2, 3, 4))
    rates.columns[2].no_wrap = rates.columns[4].no_wrap = False
    for arm in plan.arms:
        for row in _rates_of(plan, arm):
            rates.add_row(Text(arm.name), *map(Text, row))
    console.print(rates)
    console.print()


def _rates_of(plan: ExperimentPlan, arm: PlannedArm) -> Iterator[Sequence[str]]:
    settings = arm.settings
    faults = read_canonical(settings.faults, settings.chaos_level).on(plan.configuration.wiring.links)
    yield from set_rows(faults)
    if settings.error_prob:
        yield "ERROR_PROB", "tools", f"{percent_of(settings.error_prob)} of tries", "before all others"
    if settings.toxic_prob:
        yield "TOXIC_PROB", "tools", f"{percent_of(settings.toxic_prob)} of attempts", settings.toxics


def level_rows(levels: Sequence[StressLevel], flight: FlownExperiment) -> list[dict[str, Any]]:
    """What each level has shown, those left out that were not flown."""
    flown = {arm.name: arm for arm in flight.arms}
    return [
        {
            "arm": level.arm,
            "level": level.level,
            "capped": list(level.capped),
            **{name: flown[level.planned.name].measures[name].shown for name in _OF_LEVELS},
        }
        for level in levels
        if level.planned.name in flown and not flown[level.planned.name].failure
    ]


def print_levels(console: Console, levels: Sequence[StressLevel], flight: FlownExperiment) -> None:
    """A row per level, and how far the hypothesis holds."""
    table = new_table("arm", "level", *_OF_LEVELS, "always", text_columns=(0, 2, 6))
    table.columns[-1].no_wrap = False
    for row in level_rows(levels, flight):
        figures = (str(row[name]) for name in _OF_LEVELS)
        table.add_row(Text(row["arm"]), f"{row['level']:g}", *figures, Text(", ".join(row["capped"])))
    console.print(table)
    if flight.judged is None:
        return
    for arm in dict.fromkeys(level.arm for level in levels):
        highest = holds_up_to([level for level in levels if level.arm == arm], flight.judged)
        holds = "at none of these levels" if highest is None else f"up to level {highest:g}"
        console.print(Text(f"{arm}: the hypothesis holds {holds}"))
