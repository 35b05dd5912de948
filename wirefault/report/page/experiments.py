"""The page of an experiment: which statement broke, under what, by how much, and against which control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.audit.result import worst_so_far
from wirefault.core.errors import InputError
from wirefault.experiments.recorded import Recording
from wirefault.experiments.run_experiment import ExperimentResult, obstacles_in
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import ArmResult, Check
from wirefault.judging.account import FaultAccount
from wirefault.judging.layers import Layer
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.experiment_plan import agent_line, population_line
from wirefault.report.fixes import HELPS
from wirefault.report.next_command import command_on_run
from wirefault.report.page.charts import (
    MAX_LINKS,
    fault_tables,
    faults_text,
    kill_table,
    latency_chart,
    outcome_chart,
    provenance,
    reached_text,
    request_table,
)
from wirefault.report.page.costs import cost_rows, no_control
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.experiment_charts import (
    effect_chart,
    failure_tables,
    level_chart,
    level_figures,
    level_tables,
    surface_chart,
)
from wirefault.report.page.figures import CONFIDENCE, RULED_OUT, arm_figures, link_figures, reached_figures
from wirefault.report.page.findings import (
    actor_of,
    changed_replies,
    culprit_text,
    episode_text,
    example_text,
    finding_cards,
    finding_layers,
    further,
    injected_text,
    outcome_text,
    where_text,
    who_text,
)
from wirefault.report.page.parts import (
    VERDICT_TONES,
    Cell,
    Episodes,
    FindingCard,
    Matrix,
    PageContent,
    Table,
    count_text,
    early_verdict,
    first_to_open,
    resume_commands,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised, joined
from wirefault.report.page_links import episode_anchor
from wirefault.report.resilience import budget_lines
from wirefault.stats.exact import ruled_out_above
from wirefault.stats.rates import percent

_TONE_OF_CHECK = {"held": "fine", "deviated": "harmful"}
_BY_THE_LAB = ("faults_delivered", "budget_strikes")


@dataclass(frozen=True)
class _Seen:
    """An experiment and its episodes on the page."""

    saved: SavedExperiment
    result: ExperimentResult
    by_arm: Mapping[str, Sequence[EpisodeCard]]
    faults: Mapping[str, Sequence[FaultAccount]]
    """By arm with faults."""
    reached: Mapping[str, Sequence[Mapping[str, Any]]]
    """By arm, the faults that reached a request: fault, link and count."""

    @property
    def checks(self) -> Sequence[Check]:
        return self.result.judged.checks if self.result.judged else ()

    @property
    def calm(self) -> list[EpisodeCard]:
        """Episodes of arms without faults."""
        return [each for name, all in self.by_arm.items() if name not in self.faults for each in all]

    def arm(self, name: str) -> ArmResult | None:
        return next((arm for arm in self.result.arms if arm.name == name), None)

    def place(self, check: Check) -> int:
        """Its place in ``--json``."""
        return next(place for place, each in enumerate(self.checks) if each is check)


def experiment_content(recording: Recording, saved: SavedExperiment, result: ExperimentResult) -> PageContent:
    """Describe an experiment. Raises ``InputError`` if none of its arms has begun."""
    if not recording.arms:
        raise InputError(f"{recording.id}: nothing was recorded")
    episodes = Episodes(saved.logs, recording.id)
    default = recording.default_arm
    by_arm: dict[str, list[EpisodeCard]] = {}
    for name, arm in recording.arms.items():
        by_arm[name] = episodes.add_arm(arm, shown_arm="" if arm is default else name)
    calm = {arm.name for arm in saved.plan.arms if arm.is_calm}
    summaries = episodes.summaries
    arms = [
        arm_figures(name, summaries[name], len(all)) | reached_figures(summaries[name], all)
        for name, all in by_arm.items()
    ]
    seen = _Seen(
        saved,
        result,
        by_arm,
        {name: summaries[name].faults for name in by_arm if name not in calm},
        {arm["arm"]: arm["reached"] for arm in arms},
    )
    links = link_figures([each.trace for all in by_arm.values() for each in all])
    levels = level_figures(result)
    checks = list(_check_cards(seen, recording.id))
    in_checks = {name for check in seen.checks if check.verdict == "deviated" for name in check.measured}
    tested = [each for name, all in by_arm.items() if name in seen.faults for each in all]
    cards = [
        *checks,
        *finding_cards(
            tested or [each for all in by_arm.values() for each in all],
            seen.calm,
            except_outcomes=frozenset(in_checks),
        ),
    ]
    verdict, tone = result.word, VERDICT_TONES.get(result.word, "open")
    if result.early:
        verdict, tone = early_verdict(result.early, worst_so_far(recording))
    return PageContent(
        id=recording.id,
        title=f"Tested: {saved.plan.experiment.title}",
        kind="experiment",
        tone=tone,
        verdict=verdict,
        sentence=Phrase(_sentence(seen), *(beyond_statements(cards) if verdict == "held" else ())),
        facts=list(_facts(seen, arms)),
        commands=[
            (
                "repeat the whole experiment",
                command_on_run(["wirefault", "run", "--again", recording.id], [], saved.logs),
            ),
            *resume_commands(recording),
        ],
        findings=cards,
        matrix=_statement_matrix(seen),
        charts=[
            *effect_chart(result.effects, seen.faults),
            *level_chart(levels, saved.plan.terms.confidence),
            *surface_chart(result),
            *outcome_chart(arms),
            *latency_chart(links),
        ],
        tables=[
            *([_statement_table(seen)] if seen.checks else []),
            *level_tables(result),
            *failure_tables(result.arms),
            *request_table(links),
            *fault_tables(arms, seen.faults),
            *kill_table(arms),
        ],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, summaries),
        remarks=[*budget_lines(result.arms), *_obstacle_lines(obstacles_in(result))],
        figures={
            "arms": arms,
            "episodes": episodes.rows,
            "links": links,
            "levels": levels,
            "confidence": saved.plan.terms.confidence,
        },
        opened=first_to_open(cards, [*tested, *seen.calm]),
    )


def _facts(seen: _Seen, arms: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    plan = seen.saved.plan
    tested = agent_line(plan.configuration.wiring, plan.subject).removeprefix("agent: ")
    of_lab = plan.configuration.wiring.is_lab and arms
    subject = Figure(arms[0]["subject"], "figures", "arms", 0, "subject") if of_lab else ""
    yield "tested", Phrase(tested, *([": ", subject] if subject else []))
    yield "under", reached_text(arms, (row for rows in seen.faults.values() for row in rows))
    counts: list[str] = [
        Phrase(
            f"{arm['arm']} (",
            Figure(count_text(arm["episodes"], "episode"), "figures", "arms", place, "episodes"),
            ")" if arm["arm"] in seen.faults else ", without faults)",
        )
        for place, arm in enumerate(arms)
    ]
    yield "arms", joined(", ", counts)
    yield "seed", Figure(plan.seed, "seed")
    sure = percent(plan.terms.confidence)
    before, _, after = population_line(plan).partition(sure)
    yield "intervals", Phrase(before, Figure(sure, "figures", "confidence"), after)


def _sentence(seen: _Seen) -> Phrase:
    """Say which statement broke, by how much, under what, and the interval of its rate."""
    judged = seen.result.judged
    if judged is None:
        return Phrase("It did not complete, so its hypothesis is not decided.")
    if judged.verdict == "held":
        return _held_sentence(seen)
    checks = [check for check in seen.checks if check.verdict == judged.verdict]
    if not checks:
        return capitalised(Phrase(judged.because.rstrip("."), "."))
    check = checks[0]
    is_broken = check.verdict == "deviated"
    alike = [each for each in checks if each.statement == check.statement]
    arms = ", ".join(dict.fromkeys(each.arm for each in alike))
    rows = seen.faults.get(check.arm, ())
    under = f" The faults there: {_faults_in(seen, [check.arm])}." if rows else ""
    outcomes = [name for name in check.measured if name in OUTCOMES]
    if is_broken and len(outcomes) == len(check.measured) == 1:
        parts = _counted_sentence(seen, check, outcomes[0], under)
    else:
        word = "did not hold" if is_broken else "is not decided"
        in_arms = f"{'arm' if len(alike) == 1 else 'arms'} {arms}"
        parts = [_quoted(seen, check), f" {word} in the {in_arms}: ", _measured(seen, check), ".", under]
        parts += _in_control(seen, check)
    if others := list(dict.fromkeys(each.statement for each in checks if each.statement != check.statement)):
        first = [next(check for check in checks if check.statement == other) for other in others]
        named = joined(", ", [_quoted(seen, each) for each in first])
        parts += [f" {'Also broken' if is_broken else 'Also open'}: ", named, "."]
    return Phrase(*parts)


def _counted_sentence(seen: _Seen, check: Check, outcome: str, under: str) -> list[str]:
    """Say how often an outcome was seen that the statement excludes."""
    count = Figure(check.measured[outcome], "checks", seen.place(check), "measured", outcome)
    name = outcome.replace("_", " ").capitalize()
    parts = [f"{name} in ", count, f" episodes of the arm {check.arm}: {OUTCOMES[outcome].meaning}."]  # type: ignore[index]
    parts += [under, *_in_control(seen, check), " That refutes ", _quoted(seen, check), "."]
    return [*parts, *_rate_interval(seen, check, outcome)]


def _held_sentence(seen: _Seen) -> Phrase:
    """Say how many statements held, under what, and how rare the smallest arm shows a failure to be."""
    alone = len(seen.checks) == 1
    parts: list[str] = [
        "The " if alone else "All ",
        Figure(count_text(len(seen.checks), "statement"), "checks"),
        " held",
    ]
    if seen.faults:
        parts.append(f", under {_faults_in(seen, list(seen.faults))}")
    judged = {name: sum(each.is_judged for each in all) for name, all in seen.by_arm.items()}
    smallest = min(judged, key=lambda name: judged[name], default="")
    if n := judged.get(smallest, 0):
        at = ("figures", "arms", list(judged).index(smallest))
        rate = percent(ruled_out_above(n, RULED_OUT), decimals=0)
        parts += [". The smallest arm has ", Figure(count_text(n, "judged episode"), *at, "judged")]
        parts += [": what none of them showed happens in at most ", Figure(rate, *at, "ruled_out")]
        parts += [" of episodes (", Figure(percent(CONFIDENCE), *at, "confidence"), " confidence)"]
    return Phrase(*parts, ".")


def beyond_statements(cards: Sequence[FindingCard]) -> Iterator[str]:
    """Yield a sentence about the worst finding where all statements held: none was broken by it."""
    worst = next((card for card in cards if card.severity in ("harmful", "risky")), None)
    if worst is not None:
        finding = Phrase(*culprit_text(worst), " (", worst.seen, ")")
        yield from (f" No statement excludes this {worst.word}. ", finding, ".")


def _faults_in(seen: _Seen, arms: Sequence[str]) -> str:
    """Name the faults that reached a request in the arms, and their links; else the ones that could have."""
    links: dict[str, dict[str, None]] = {}
    for row in (row for arm in arms for row in seen.reached.get(arm, ())):
        links.setdefault(row["fault"], {})[row["link"]] = None
    if not links:
        return faults_text((row for arm in arms for row in seen.faults.get(arm, ())), MAX_LINKS)
    return ", ".join(f"{fault} on {' and '.join(names)}" for fault, names in links.items())


def _quoted(seen: _Seen, check: Check) -> Phrase:
    return Phrase("“", Figure(check.statement, "checks", seen.place(check), "statement"), "”")


def _measured(seen: _Seen, check: Check) -> Phrase:
    """The figures that decided a statement, and its message."""
    at = ("checks", seen.place(check))
    figures: list[str] = []
    for name, text in check.measured.items():
        word = name.replace("_", " ") if name in OUTCOMES else name
        meaning = f" ({OUTCOMES[name].meaning})" if name in OUTCOMES else ""  # type: ignore[index]
        figures.append(Phrase(f"{word}{meaning} ", Figure(text, *at, "measured", name)))
    if check.message:
        figures.append(Figure(check.message, *at, "message"))
    return joined("; ", figures)


def _rate_interval(seen: _Seen, check: Check, outcome: str) -> list[str]:
    """Return the interval of an outcome's rate; nothing where the arm has none of it."""
    arm = seen.arm(check.arm)
    measure = arm.measures.get(outcome) if arm else None
    ends = measure.rate_interval if measure else None
    if arm is None or measure is None or ends is None:
        return []
    at = ("arms", seen.result.arms.index(arm), "measures", outcome)
    sure = Figure(percent(seen.saved.plan.terms.confidence), "figures", "confidence")
    rates = Figure(" to ".join(map(percent, ends)), *at, "rate")
    of_all = any(not each.judged.faults for each in seen.by_arm.get(check.arm, ()))
    note = "; it counts episodes that no fault reached, too" if of_all else ""
    return [" Its rate: ", Figure(measure.figure, *at), ", ", sure, " interval ", rates, f"{note}."]


def _in_control(seen: _Seen, check: Check) -> list[str]:
    """The same measures in the control, without faults."""
    control = seen.arm("control")
    if control is None or check.arm not in seen.faults:
        return []
    at = ("arms", seen.result.arms.index(control), "measures")
    names = [name for name in check.measured if name in control.measures]
    figures: list[str] = []
    for name in names:
        word = name.replace("_", " ") if name in OUTCOMES else name
        measure = control.measures[name]
        figures.append(Phrase(f"{word} ", Figure(measure.figure, *at, name)))
    return [" Without faults (control): ", joined("; ", figures), "."] if figures else []


def _check_cards(seen: _Seen, recording_id: str) -> Iterator[FindingCard]:
    """Yield a card for each statement that deviated or is unknown, once for all arms, with an episode."""
    show_all = command_on_run(["wirefault", "report", recording_id], [], seen.saved.logs)
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in seen.checks:
        if check.verdict != "held":
            groups.setdefault((check.statement, check.verdict), []).append(check)
    for (_, verdict), checks in groups.items():
        episodes = [each for check in checks for each in _shown_by(seen, check)]
        example = episodes[0] if episodes else None
        outcomes = [name for name in checks[0].measured if name in OUTCOMES]
        bad = next((name for name in outcomes if example and example.judged.outcome == name), "")
        layers = _layers(checks[0], example)
        broke = " broke: " if verdict == "deviated" else " is not decided: "
        parts: list[str] = [_quoted(seen, checks[0]), broke]
        if bad and example:
            parts += [_measured(seen, checks[0]), "; for example ", example.figure(example.judged.why, "why")]
        else:
            parts.append(_measured(seen, checks[0]))
            if example and example.judged.why:
                parts += ["; for example ", outcome_text(example.judged.outcome, example)]
        yield FindingCard(
            severity="harmful" if verdict == "deviated" else "note",
            rule=checks[0].assertion or "statement",
            text=Phrase(*parts),
            seen=joined("; ", [_in_arm(seen, check, first=check is checks[0]) for check in checks]),
            costs=cost_rows(example, seen.calm) if example else [],
            helps=HELPS.get(bad or (example.judged.outcome if example else ""), ""),
            href=f"#{example.anchor}" if example else "",
            command=example.command if example else show_all,
            repeat=example.repeat if example else "",
            actor=(actor := _actor(checks[0], example, layers)),
            who=who_text(actor, layers, example),
            example=example_text(episodes) if episodes else "",
            injected=injected_text(example, ()) if example else "",
            where=where_text(example, ()) if example else "",
            episode=episode_text(example) if example else "",
            both_sides=changed_replies(example, ()) if example else (),
            label=verdict,
            also=further(episodes),
            no_control=no_control(example, seen.calm) if example else "",
        )


def _shown_by(seen: _Seen, check: Check) -> list[EpisodeCard]:
    keys = set(check.episodes)
    return [each for each in seen.by_arm.get(check.arm, ()) if each.key in keys]


def _in_arm(seen: _Seen, check: Check, *, first: bool) -> str:
    """Name the arm and its episodes; of further arms also what was measured there."""
    place = list(seen.by_arm).index(check.arm) if check.arm in seen.by_arm else -1
    if place < 0:
        return f"arm {check.arm}"
    count = count_text(len(seen.by_arm[check.arm]), "episode")
    parts: list[str] = [f"arm {check.arm}, ", Figure(count, "figures", "arms", place, "episodes")]
    return Phrase(*parts) if first else Phrase(*parts, ": ", _measured(seen, check))


def _layers(check: Check, example: EpisodeCard | None) -> list[Layer]:
    """Return the layers that sent requests again in the harmful finding of a deviation's example."""
    harmful = [] if example is None else [each for each in example.findings if each.severity == "harmful"]
    if check.verdict != "deviated" or example is None or not harmful:
        return []
    return finding_layers(example.trace, harmful[0].evidence)


def _actor(check: Check, example: EpisodeCard | None, layers: Sequence[Layer]) -> str:
    if set(check.measured) & set(_BY_THE_LAB):
        return "lab"
    if check.verdict != "deviated":
        return ""
    return actor_of(example.judged.outcome, layers, example.trace) if example else "agent"


def _statement_matrix(seen: _Seen) -> Matrix | None:
    if not seen.checks:
        return None
    arms = list(dict.fromkeys(check.arm for check in seen.checks))
    numbers = {(name, each.key): each.number for name, all in seen.by_arm.items() for each in all}
    by_place = {(check.arm, check.statement): check for check in reversed(seen.checks)}
    rows = []
    for statement in dict.fromkeys(check.statement for check in seen.checks):
        cells: list[Cell | None] = []
        for arm in arms:
            check = by_place.get((arm, statement))
            if check is None:
                cells.append(None)
                continue
            number = next((numbers[arm, key] for key in check.episodes if (arm, key) in numbers), 0)
            tone = _TONE_OF_CHECK.get(check.verdict, "unknown")
            cells.append(Cell(check.verdict, tone, f"#{episode_anchor(number)}" if number else ""))
        rows.append((statement, cells))
    return Matrix("Statements by arm", "statement", arms, rows)


def _statement_table(seen: _Seen) -> Table:
    rows = []
    for place, check in enumerate(seen.checks):
        measured = _measured(seen, check)
        if check.episodes:
            count = Figure(count_text(len(check.episodes), "episode"), "checks", place, "episodes")
            measured = Phrase(measured, "; in ", count)
        statement = Figure(check.statement, "checks", place, "statement")
        rows.append((check.arm, statement, check.kind, check.verdict, measured))
    return Table("Statements", ("arm", "statement", "kind", "verdict", "measured"), rows)


def _obstacle_lines(obstacles: Mapping[str, Sequence[str]]) -> list[str]:
    """Say once for all arms with the same reasons why a repetition could have another result."""
    arms: dict[str, list[str]] = {}
    for arm, reasons in obstacles.items():
        arms.setdefault("; ".join(reasons), []).append(arm)
    return [f"Reproducible: no, because {why} ({', '.join(names)})." for why, names in arms.items()]
