"""An experiment for people: its plan, a line per arm, the effect of its faults and the verdict."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from wirefault.core.redaction import Redaction
from wirefault.experiments.assertions.registry import statement_of
from wirefault.experiments.decision_cost import decision_lines, money_lines
from wirefault.experiments.effects import FaultEffect
from wirefault.experiments.estimates import prompt_of
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.hypothesis import parse_statements, undecidable
from wirefault.experiments.index import RunCost
from wirefault.experiments.measures import BUDGET_STRIKES, is_pass
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.safety import episodes_outside_radius
from wirefault.experiments.sequential import sequential_claims
from wirefault.experiments.verdict import ArmResult, Check, ExperimentVerdict
from wirefault.experiments.watch import MIN_EPISODES
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.logs import strip_control
from wirefault.judging.checker import SEVERITIES
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.comparison import difference_text
from wirefault.report.fault_catalogue import set_rows
from wirefault.report.page_links import page_links
from wirefault.report.tables import new_table, one_line
from wirefault.settings.budgets import OF_SUBJECT, load_budgets
from wirefault.stats.rates import percent
from wirefault.subjects.function import function_label
from wirefault.wiring.subject_spec import CommandSpec, HttpSpec, PythonSpec, ServiceSpec
from wirefault.wiring.wiring import Wiring

MAX_REASONS = 5
_MAX_PROMPTS = 8
# measures that an unjudged episode leaves open
_NEED_ORACLES = {
    "success_rate",
    "success_share",
    "consistency",
    "degradation",
    "failures",
    *OUTCOMES,
}
_NEED_ORACLES -= {"unjudged", "invalid", "crash", "runaway", "duplicate"}
_ANY = Bounds(-math.inf, math.inf)


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
                names = {name.removeprefix("control_") for name in statement.expression.names}
                if names & _NEED_ORACLES or any(map(is_pass, names)):
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


def time_line(plan: ExperimentPlan, last: RunCost | None) -> str:
    """Estimate the duration from the ``last`` run; unknown without one."""
    if last is None:
        return "duration: unknown, it has not run here yet"
    each = last.seconds / last.episodes
    source = f"{last.episodes} episodes took {last.seconds:.1f} s with --workers {last.workers}"
    return f"duration: about {plan.episodes * each:.1f} s, as in {last.experiment_id}, where {source}"


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
            yield one_line(
                f"{arm.name}, {first.severity} ({rule}): {first.text} (episode {first.episode}{others})"
            )


def reproducible_lines(obstacles: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield whether the same seed gives the same result, or the arms where it depends on order or time."""
    for arm, reasons in obstacles.items():
        yield f"{arm}, reproducible: no, because {one_line('; '.join(reasons))}"
    if not obstacles:
        yield "reproducible: yes"


_STYLES: Mapping[ExperimentVerdict, str] = {
    "held": "green",
    "deviated": "bold red",
    "unknown": "yellow",
    "aborted": "bold magenta",
}
MAX_EPISODES = 5


def arm_line(arm: ArmResult) -> Text:
    """Return the arm's success and delivered faults, or why it failed."""
    if arm.failure:
        return Text(f"{arm.name:<20} {one_line(arm.failure)}", style="bold magenta")
    success, faults = arm.measures["success_rate"].text, arm.measures["faults_delivered"].text
    strikes = arm.measures[BUDGET_STRIKES]
    budgets = f", budget strikes {strikes.text}" if strikes.bounds and strikes.bounds.low else ""
    claims = f"; {arm.claims.text}" if arm.claims.n else ""
    return Text(f"{arm.name:<20} success {success}, faults delivered {faults}{budgets}{claims}")


def print_verdict(console: Console, result: ExperimentResult, obstacles: Mapping[str, Sequence[str]]) -> None:
    """Print a row per statement, then the verdict in one line.

    ``obstacles``: by arm, why a repetition could have another result.
    """
    judged = result.judged
    if judged is None:
        console.print(Text("no verdict: it is incomplete", style="bold magenta"))
        return
    table = new_table("arm", "statement", "kind", "verdict", "measured", text_columns=(0, 1, 2, 3, 4))
    table.columns[1].no_wrap = table.columns[4].no_wrap = False
    for check in judged.checks:
        verdict, kind = Text(check.verdict, style=_STYLES[check.verdict]), Text(check.kind)
        statement = Text(one_line(check.statement))
        table.add_row(Text(check.arm), statement, kind, verdict, Text(measures_text(check)))
    console.print()
    console.print(table)
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


def measures_text(check: Check) -> str:
    """Return the figures that decided a statement, on one line."""
    return one_line("; ".join(_details(check)))


def _details(check: Check) -> Iterator[str]:
    figures = ", ".join(f"{name} {figure}" for name, figure in check.measured.items())
    if figures:
        yield figures
    if check.message:
        yield check.message
    if check.episodes:
        others = len(check.episodes) - MAX_EPISODES
        more = f" and {others} more" if others > 0 else ""
        yield f"episodes {', '.join(check.episodes[:MAX_EPISODES])}{more}"


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


def print_plan(console: Console, plan: ExperimentPlan, last: RunCost | None) -> None:
    """Print the arms, how often their faults act, and the toxics that the seed draws.

    ``last``: the cost of the experiment's last run.
    """
    console.print(Text(one_line(plan.experiment.title), style="bold"))
    for line in head_lines(plan):
        console.print(Text(line))
    if plan.experiment.description:
        console.print(Text(one_line(plan.experiment.description)), soft_wrap=True)
    most = "up to " if plan.sequential else ""
    sizes = sorted({len(plan.prompts_of(arm)) for arm in plan.arms})
    each = (
        f"{most}{sizes[0]} episodes each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} episodes each"
    )
    console.print(f"{len(plan.arms)} arms of {each}: {most}{plan.episodes} episodes, seed {plan.seed}")
    console.print(Text(population_line(plan)), soft_wrap=True)
    table = new_table("arm", "must hold", "toxics armed", text_columns=(0, 1, 2))
    table.columns[1].no_wrap = table.columns[2].no_wrap = False
    for arm in plan.arms:
        toxics = ", ".join(f"{name} x{count}" for name, count in plan.toxics_drawn(arm).items())
        table.add_row(Text(arm.name), Text(one_line("; ".join(_demands(arm)))), Text(toxics or "none"))
    console.print(table)
    cost_lines = list(decision_lines(plan, last)) or [time_line(plan, last), *money_lines(plan, last)]
    for line in (*cost_lines, *radius_lines(plan), *end_lines(plan)):
        console.print(Text(line))
    rates = new_table("arm", "fault", "links", "true rate", "conditions", text_columns=(0, 1, 2, 3, 4))
    rates.columns[2].no_wrap = rates.columns[4].no_wrap = False
    for arm in plan.arms:
        for row in _rates_of(plan, arm):
            rates.add_row(Text(arm.name), *map(Text, row))
    console.print(rates)
    console.print()


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


def print_effects(console: Console, effects: Sequence[FaultEffect]) -> None:
    """Print a row for each fault of each arm, if there are any."""
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
        figures = (effect.planned, effect.drawn, effect.alone, effect.control, effect.struck)
        success = "unknown" if effect.success is None else difference_text(effect.success)
        left_out = f", {effect.open} without an outcome" if effect.open else ""
        table.add_row(Text(effect.arm), Text(effect.fault), *map(str, figures), Text(success + left_out))
    console.print()
    console.print(table)
    console.print(
        Text(
            "the episodes for which a fault was planned, as the control's shadows show it; where they are not"
            " alone, other faults have a part in it",
            style="dim",
        )
    )


# what XML 1.0 cannot hold even when it is escaped
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    return _NOT_XML.sub("", strip_control(text))


def junit(results: list[ExperimentResult]) -> str:
    """Return JUnit XML: a suite per experiment, a case per statement and arm.

    Unknown is an error, not a pass; a statement about an arm that was not run is skipped.
    """
    root = ElementTree.Element("testsuites")
    for result in results:
        suite = ElementTree.SubElement(root, "testsuite", name=xml_text(result.plan.experiment.title))
        arms = {arm.name: arm for arm in result.arms}
        checks = result.judged.checks if result.judged else []
        links = page_links(result.saved) if arms else {}
        for check in checks:
            case = _junit_case(suite, check.arm, check.statement)
            pages = [links[check.arm, key] for key in check.episodes if (check.arm, key) in links]
            runs = ", ".join(arms[check.arm].run_ids) if check.arm in arms else ""
            page = next(iter([*pages, *(link for (arm, _), link in links.items() if arm == check.arm)]), "")
            figures = {"kind": check.kind, "measured": measures_text(check), "run": runs, "page": page}
            properties = ElementTree.SubElement(case, "properties")
            for name, value in figures.items():
                if value or name == "measured":
                    ElementTree.SubElement(properties, "property", name=name, value=xml_text(value))
            if check.verdict != "held":
                tag = "failure" if check.verdict == "deviated" else "error"
                problem = ElementTree.SubElement(case, tag, message=xml_text(measures_text(check)))
                lines = (check.expected, *check.evidence, f"page: {pages[0]}" if pages else "")
                problem.text = xml_text("\n".join(filter(None, lines))) or None
        for arm in result.plan.arms:
            if arm.name not in arms:
                for statement in (*arm.hypothesis, *map(statement_of, arm.assertions)):
                    skipped = ElementTree.SubElement(_junit_case(suite, arm.name, statement), "skipped")
                    skipped.set("message", xml_text(f"the arm {arm.name} was not run"))
        if result.judged is None:
            case = _junit_case(suite, "experiment", "completed")
            ElementTree.SubElement(case, "error", message="did not run to its end")
        if seconds := result.timing.get("seconds"):
            suite.set("time", f"{seconds:.3f}")
    return junit_text(root)


def _junit_case(suite: ElementTree.Element, arm: str, statement: str) -> ElementTree.Element:
    names = {"classname": xml_text(arm), "name": xml_text(statement)}
    return ElementTree.SubElement(suite, "testcase", names)


def junit_text(root: ElementTree.Element) -> str:
    """Return the document, with the number of cases in each suite."""
    for suite in root:
        for name, tag in (
            *(("tests", "testcase"), ("failures", ".//failure")),
            *(("errors", ".//error"), ("skipped", ".//skipped")),
        ):
            suite.set(name, str(len(suite.findall(tag))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
