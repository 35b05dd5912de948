"""An experiment's plan for people: whose agent, which arms and faults, and what cannot be decided."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from wirefault.core.redaction import Redaction
from wirefault.experiments.assertions.registry import statement_of
from wirefault.experiments.cost import claim_lines, estimated
from wirefault.experiments.estimates import prompt_of
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.figures import figure_named
from wirefault.experiments.hypothesis import parse_statements, undecidable
from wirefault.experiments.index import RunCost
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.safety import episodes_outside_radius
from wirefault.experiments.sequential import sequential_claims
from wirefault.experiments.watch import MIN_EPISODES
from wirefault.faults.sets.presets import read_canonical
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.summary import counted
from wirefault.report.fault_catalogue import set_rows
from wirefault.report.tables import new_table, one_line
from wirefault.settings.budgets import OF_SUBJECT, load_budgets
from wirefault.stats.rates import percent
from wirefault.subjects.function import function_label
from wirefault.wiring.subject_spec import CommandSpec, HttpSpec, PythonSpec, ServiceSpec
from wirefault.wiring.wiring import Wiring

_MAX_PROMPTS = 8
# measures that an unjudged episode leaves open
_ANY = Bounds(-math.inf, math.inf)


def print_plan(console: Console, plan: ExperimentPlan, last: RunCost | None) -> None:
    """Print the arms, how often their faults act, and the toxics that the seed draws.

    ``last``: the cost of the experiment's last run.
    """
    console.print(Text(one_line(plan.experiment.title), style="bold"))
    for line in head_lines(plan):
        console.print(Text(line))
    if plan.experiment.description:
        console.print(Text(one_line(plan.experiment.description)), soft_wrap=True)
    most = "up to " if plan.experiment.until_decided else ""
    sizes = sorted({len(plan.prompts_of(arm)) for arm in plan.arms})
    size = counted(sizes[0], "episode") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} episodes"
    each = f"{counted(len(plan.arms), 'arm')} of {most if len(sizes) == 1 else ''}{size} each"
    console.print(f"{each}: {most}{counted(plan.episodes, 'episode')}, seed {plan.seed}")
    console.print(Text(population_line(plan)), soft_wrap=True)
    table = new_table("arm", "must hold", "toxics armed", text_columns=(0, 1, 2))
    table.columns[1].no_wrap = table.columns[2].no_wrap = False
    for arm in plan.arms:
        toxics = ", ".join(f"{name} x{count}" for name, count in plan.toxics_drawn(arm).items())
        table.add_row(Text(arm.name), Text(one_line("; ".join(_demands(arm)))), Text(toxics or "none"))
    console.print(table)
    cost_lines = (*claim_lines(plan, last), estimated(plan, last).text)
    for line in (*cost_lines, *radius_lines(plan), *end_lines(plan)):
        console.print(Text(line))
    rates = new_table("arm", "fault", "links", "true rate", "conditions", text_columns=(0, 1, 2, 3, 4))
    rates.columns[2].no_wrap = rates.columns[4].no_wrap = False
    for arm in plan.arms:
        for row in _rates_of(plan, arm):
            rates.add_row(Text(arm.name), *map(Text, row))
    console.print(rates)
    console.print()


def head_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield whose agent is run, which prompts lack an oracle that a statement needs, and hopeless counts."""
    if plan.experiment.is_in_place:
        yield f"agent: yours, {function_label(plan.experiment.subject)}, in this process"
    else:
        yield agent_line(plan.configuration.wiring, plan.subject)
    lines = (
        *oracle_lines(plan),
        *perturbed_lines(plan),
        *count_lines(plan),
        *undecidable_lines(plan),
    )
    yield from (f"warning: {one_line(line)}" for line in lines)


def agent_line(wiring: Wiring, subject: str = "") -> str:
    """Return whose agent is run, as the files or the command line name it. ``subject``: replaces theirs."""
    spec = wiring.subject
    if subject:
        name = f"{subject} (--subject)"
    elif wiring.is_lab:
        name = "the lab's own, not yours (for yours, name its wiring)"
    else:
        named = Redaction(os.environ)
        match spec:
            case CommandSpec():
                name = shlex.join(named.words(spec.command))
            case ServiceSpec():
                name = shlex.join(named.words(spec.service))
            case HttpSpec():
                name = named.text(spec.http)
            case PythonSpec():
                name = f"python {spec.python}"
            case _:
                name = "unknown"
        name = f"yours, {one_line(name)}" + (f" ({wiring.file})" if wiring.file else "")
    return f"agent: {name}"


def oracle_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield a line if prompts have no oracle and statements need one: which, and what to add."""
    keys = _without_oracle(plan)
    statements = [f"{arm}: {text}" for arm, text in _statements_with_oracles(plan)]
    if not keys or not statements:
        return
    more = f" and {len(keys) - _MAX_PROMPTS} more" if len(keys) > _MAX_PROMPTS else ""
    named = f"{', '.join(keys[:_MAX_PROMPTS])}{more}"
    what = "prompt without `expect` leaves" if len(keys) == 1 else "prompts without `expect` leave"
    yield (
        f"missing oracle: {named}; {len(keys)} {what} open whether these hold: {'; '.join(statements)}."
        " Add `expect`, or choose other prompts with `only`"
    )


def _without_oracle(plan: ExperimentPlan) -> list[str]:
    """Return the keys of prompts without an oracle, each without its repetitions."""
    first: dict[tuple[str, int], str] = {}
    for prompt in plan.prompts:
        if prompt.expect is None:
            first.setdefault((prompt.text, prompt.place), prompt.key)
    return list(first.values())


def _statements_with_oracles(plan: ExperimentPlan) -> Iterator[tuple[str, str]]:
    """Yield arm and text of each statement that needs oracles."""
    for arm in plan.arms:
        for text in arm.hypothesis:
            for statement in parse_statements(text):
                figures = map(figure_named, statement.expression.names)
                if any(figure is not None and figure.needs_oracle for figure in figures):
                    yield arm.name, statement.text


def perturbed_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield the prompts that a perturbation cannot change, which its arms leave out."""
    for name, prompts in plan.perturbed.items():
        changed = {prompt_of(prompt.key) for prompt in prompts}
        out = list(dict.fromkeys(prompt_of(each.key) for each in plan.prompts))
        out = [key for key in out if key not in changed]
        if out:
            more = f" and {len(out) - _MAX_PROMPTS} more" if len(out) > _MAX_PROMPTS else ""
            yield f"{name} leaves out prompts that it cannot change: {', '.join(out[:_MAX_PROMPTS])}{more}"


def count_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield the statements about counts that no result of this plan could make true."""
    for arm in plan.arms:
        count = len(plan.prompts_of(arm))
        possible = {name: Bounds(0, count) for name in (*OUTCOMES, "failures")} | {"all": exactly(count)}
        for statement in (each for text in arm.hypothesis for each in parse_statements(text)):
            text, expression = statement.text, statement.expression
            measured = {name: possible.get(name.removeprefix("control_"), _ANY) for name in expression.names}
            if expression.holds(measured) is False:
                episodes = "1 episode" if count == 1 else f"{count} episodes"
                yield (
                    f"{arm.name}: {text}: cannot hold, since the arm has {episodes};"
                    " use more repeats, or success == all"
                )


def undecidable_lines(plan: ExperimentPlan) -> list[str]:
    """Return the claims that this plan could not decide even if every episode succeeded, and what would.

    Claims that a sequential test decides run as long as it takes.
    """
    lines: list[str] = []
    for arm in plan.arms:
        prompts = len({prompt_of(prompt.key) for prompt in plan.prompts_of(arm)})
        repeats = math.ceil(len(plan.prompts_of(arm)) / prompts) if prompts else 0
        statements = [
            statement
            for text in arm.hypothesis
            for statement in parse_statements(text)
            if not (plan.experiment.until_decided and sequential_claims(statement.text))
        ]
        lines += [undecidable(each, prompts, repeats, plan.terms) for each in statements] if prompts else []
    return list(dict.fromkeys(filter(None, lines)))


def population_line(plan: ExperimentPlan) -> str:
    """Return what the intervals of claims describe, and how they are formed."""
    sure = percent(plan.terms.confidence)
    if plan.terms.population == "these":
        return f"claims are about these prompts ({sure} intervals; each episode counts)"
    prompts = len({prompt_of(prompt.key) for prompt in plan.prompts})
    if plan.experiment.until_decided:
        return f"claims are about prompts drawn from these {prompts} with replacement ({sure} intervals)"
    return (
        f"claims are about prompts like these {prompts} ({sure} intervals; the repeats of a prompt are one"
        " cluster, and count by how much they differ)"
    )


def radius_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield the blast radius of each arm."""
    keys = [prompt.key for prompt in plan.prompts]
    for arm in plan.arms:
        if arm.capped:
            yield f"{arm.name}: always act at this level, the chance is capped: {', '.join(arm.capped)}"
        if outside := episodes_outside_radius(arm.settings, keys):
            yield f"{arm.name}: {outside} of {len(keys)} episodes are outside the blast radius: no faults"
        if arm.settings.fault_calls:
            yield f"{arm.name}: faults act on at most {arm.settings.fault_calls} calls of an episode"


def end_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield the conditions that end the run early."""
    safety, limits = plan.experiment.safety, plan.experiment.limits
    if safety.abort:
        yield f"aborted as soon as: {'; '.join(safety.abort)}"
        if len(plan.prompts) < MIN_EPISODES and any("_" in text for text in safety.abort):
            yield f"shares are watched from {MIN_EPISODES} episodes on; an arm here has {len(plan.prompts)}"
    bounds = [] if limits.time is None else [f"{limits.time:g} s"]
    bounds += [] if limits.cost is None else [f"{limits.cost:g} USD"]
    if bounds:
        yield f"no episodes start after {' or '.join(bounds)}"


def _demands(arm: PlannedArm) -> Iterator[str]:
    if arm.is_calm and arm.perturbation:
        yield "nothing: it shows what the perturbation does without faults"
    yield from arm.hypothesis
    yield from map(statement_of, arm.assertions)


def _rates_of(plan: ExperimentPlan, arm: PlannedArm) -> Iterator[Sequence[str]]:
    settings = arm.settings
    faults = read_canonical(settings.faults, settings.chaos_level).on(plan.configuration.wiring.links)
    yield from set_rows(faults)
    if settings.error_prob:
        yield "ERROR_PROB", "tools", f"{percent(settings.error_prob)} of tries", "before all others"
    if settings.toxic_prob:
        yield "TOXIC_PROB", "tools", f"{percent(settings.toxic_prob)} of attempts", settings.toxics
    if budgets := load_budgets(settings.budgets):
        for place, limit in budgets.limits():
            links = "the subject" if place in OF_SUBJECT else budgets.links
            yield f"budget {place}", links, "once it is used up", f"{limit:.10g}, {budgets.mode}"
