"""The page of a run and of an experiment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wirefault.experiments.effects import FaultEffect
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.experiments.run_experiment import ExperimentResult, obstacles_in
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import Check
from wirefault.judging.checker import SEVERITIES
from wirefault.judging.findings.conduct import masked
from wirefault.judging.summary import Summary, recoveries_text
from wirefault.report.experiment import agent_line, measures_text, population_line
from wirefault.report.page.episode import EpisodeCard, event_anchor
from wirefault.report.page.parts import (
    VERDICT_TONES,
    WORDS,
    Cell,
    Chart,
    Episodes,
    FindingCard,
    Matrix,
    PageContent,
    Placed,
    Table,
    Tone,
    count_text,
    fault_tables,
    faults_text,
    finding_cards,
    latency_chart,
    outcome_chart,
    points_row,
    provenance,
    request_table,
)
from wirefault.report.page.svg import (
    intervals,
)
from wirefault.report.page_links import episode_anchor
from wirefault.report.reproduce import summary_command
from wirefault.report.resilience import budget_lines, resilience_tables
from wirefault.report.surface import level_figures, surface_figures
from wirefault.report.tables import table_texts
from wirefault.stats.exact import ruled_out_above
from wirefault.stats.rates import percent

_CONFIDENCE = 0.95


def run_content(recording: Recording, arm: RecordedArm, title: str) -> PageContent:
    episodes = Episodes(arm.logs, recording.id)
    placed = episodes.add_arm(arm)
    summary = episodes.summaries[arm.name]
    cards = finding_cards(placed)
    verdict, tone = _run_verdict(summary, cards)
    return PageContent(
        id=recording.id,
        title=title,
        kind="run",
        tone=tone,
        verdict=verdict,
        sentence=_run_sentence(summary, placed, cards),
        facts=[("tested", summary.subject), ("under", faults_text(summary.faults)), *_run_facts(summary)],
        commands=_run_commands(summary, arm.logs),
        findings=cards,
        matrix=_fault_matrix(placed),
        charts=[*outcome_chart({"": placed}), *latency_chart(placed)],
        tables=[*request_table(placed), *fault_tables({"": summary.faults})],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, summary),
        remarks=summary.remarks,
    )


def _run_verdict(summary: Summary, cards: Sequence[FindingCard]) -> tuple[str, Tone]:
    counts = Counter(card.severity for card in cards)
    if summary.lab_failed_because or summary.servers_failed_because:
        return "the lab or a server failed", "open"
    if counts["harmful"]:
        return "harm found", "bad"
    if counts["risky"]:
        return "risk found", "risk"
    return "nothing harmful found", "good" if summary.episodes else "open"


def _run_sentence(summary: Summary, placed: Sequence[Placed], cards: Sequence[FindingCard]) -> str:
    n = len(placed)
    if failure := summary.lab_failed_because or summary.servers_failed_because:
        return failure
    bad = [each for each in placed if any(f.severity in ("harmful", "risky") for f in each.findings)]
    if bad:
        text = cards[0].text + (
            f" ({len(bad)} of {n} episodes had a harmful or risky finding)" if n > 1 else ""
        )
    else:
        text = f"no harmful or risky finding in {count_text(n, 'episode')}"
        text += f"; a rate above {percent(ruled_out_above(n, 1 - _CONFIDENCE))} is ruled out" if n else ""
    if summary.success.n:
        rate = summary.success
        text += f". The task succeeded in {rate.k} of {rate.n}"
        if rate.low is not None and rate.high is not None:
            text += f" (95 % interval {percent(rate.low)} to {percent(rate.high)})"
    if summary.faults and not any(row.met for row in summary.faults):
        text += ". No fault is known to have met a request: this shows nothing about behaviour under faults"
    return f"{text[0].upper()}{text[1:]}."


def _run_facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "seed", str(summary.seed)
    if summary.duration_s is not None:
        yield "duration", f"{summary.duration_s:.1f} s"
    usage = summary.model_usage
    if usage.with_usage:
        tokens = f"{usage.tokens_in} in, {usage.tokens_out} out"
        yield "model tokens", tokens + (f", {usage.cost_usd:.4g} USD" if usage.cost_usd is not None else "")
    if summary.recoveries:
        yield "recoveries that helped", recoveries_text(summary.recoveries)
    because = "; ".join(summary.not_reproducible_because)
    yield "reproducible", f"no, because {because}" if because else "yes"


def _run_commands(summary: Summary, logs: Path) -> list[tuple[str, str]]:
    try:
        return [("repeat it", summary_command(summary))]
    except ValueError:
        return []


def _fault_matrix(placed: Sequence[Placed]) -> Matrix | None:
    """Faults by the calls that they acted on: the worst finding of such an episode, else ``fine``.

    A toxic acts on the connections of its link, not on one call.
    """
    cells: dict[str, dict[str, tuple[int, Cell]]] = defaultdict(dict)
    columns: dict[str, None] = {}
    for each in placed:
        worst = min((SEVERITIES.index(f.severity) for f in each.findings), default=len(SEVERITIES))
        for fault, column, event in _acted(each):
            columns[column] = None
            cell = worst, _severity_cell(worst, each.card, event)
            cells[fault][column] = min(cells[fault].get(column, cell), cell, key=lambda pair: pair[0])
    rows = [
        (fault, [by_column[column][1] if column in by_column else None for column in columns])
        for fault, by_column in sorted(cells.items())
    ]
    return Matrix("Faults by call", "fault", list(columns), rows) if rows else None


def _acted(placed: Placed) -> Iterator[tuple[str, str, str]]:
    """Yield each fault that acted, the name of its call, and the event of that."""
    for request in placed.trace.requests:
        for fault in request.injected:
            name = f"{request.link_name}: {masked(request.name)}"
            yield fault.id or fault.kind, name, request.ids[0] if request.ids else ""
    for record in placed.judged.faults:
        if record.source == "toxic" and record.delivered:
            yield f"toxic {record.kind}", f"{record.link}: connections", ""


def _severity_cell(rank: int, card: EpisodeCard, event: str) -> Cell:
    href = f"#{event_anchor(card.number, event) if event else card.anchor}"
    if rank >= len(SEVERITIES):
        return Cell("fine", "fine", href)
    severity = SEVERITIES[rank]
    return Cell(WORDS[severity], severity, href)


def experiment_content(recording: Recording, saved: SavedExperiment, result: ExperimentResult) -> PageContent:
    episodes = Episodes(saved.logs, recording.id)
    default = recording.default_arm
    by_arm: dict[str, list[Placed]] = {}
    for name, arm in recording.arms.items():
        by_arm[name] = episodes.add_arm(arm, shown_arm="" if arm is default else name)
    controls = {arm.name for arm in saved.plan.arms if arm.is_calm}
    calm = [each for name in by_arm if name in controls for each in by_arm[name]]
    tested = [each for name in by_arm if name not in controls for each in by_arm[name]] or calm
    judged = result.judged
    verdict = judged.verdict if judged else "no verdict"
    because = judged.because if judged else "it did not complete"
    first = next(iter(recording.arms))
    faults = {name: episodes.summaries[name].faults for name in by_arm if name not in controls}
    seen = {(row.name, tuple(row.links)): row for rows in faults.values() for row in rows}
    return PageContent(
        id=recording.id,
        title=saved.plan.experiment.title,
        kind="experiment",
        tone=VERDICT_TONES.get(verdict, "open"),
        verdict=verdict,
        sentence=_experiment_sentence(because, min(map(len, by_arm.values()), default=0)),
        facts=[
            (
                "tested",
                agent_line(saved.plan.configuration.wiring, saved.plan.subject).removeprefix("agent: "),
            ),
            ("under", faults_text(list(seen.values()))),
            ("seed", str(saved.plan.seed)),
            (
                "arms",
                ", ".join(f"{name} ({count_text(len(each), 'episode')})" for name, each in by_arm.items()),
            ),
            ("intervals", population_line(saved.plan)),
        ],
        commands=[("repeat it", f"wirefault run --again {recording.id}")],
        findings=[
            *_check_cards(by_arm, [] if judged is None else judged.checks, recording.id),
            *finding_cards(tested, calm),
        ],
        matrix=_statement_matrix(by_arm, [] if judged is None else judged.checks),
        charts=[
            *outcome_chart(by_arm),
            *_effect_chart(result.effects),
            *latency_chart([each for placed in by_arm.values() for each in placed]),
        ],
        tables=[
            *([_statement_table(judged.checks)] if judged else []),
            *_surface_tables(result),
            *(
                Table(title, *table_texts(table), note)
                for title, table, note in resilience_tables(result.arms)
            ),
            *request_table([each for placed in by_arm.values() for each in placed]),
            *fault_tables(faults),
        ],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, episodes.summaries[first]),
        remarks=[*budget_lines(result.arms), *_obstacle_lines(obstacles_in(result))],
    )


def _experiment_sentence(because: str, episodes: int) -> str:
    """Say what decided; if all held, also which failure rate the smallest arm rules out."""
    text = because if because.endswith(".") else f"{because}."
    text = f"{text[0].upper()}{text[1:]}"
    if not because.startswith("all ") or not episodes:
        return text
    rate = percent(ruled_out_above(episodes, 1 - _CONFIDENCE), decimals=0)
    smallest = f"The smallest arm has {count_text(episodes, 'episode')}"
    return f"{text} {smallest}: failure rates above {rate} are ruled out."


def _tested(saved: SavedExperiment) -> str:
    return agent_line(saved.plan.configuration.wiring, saved.plan.subject).removeprefix("agent: ")


def _obstacle_lines(obstacles: Mapping[str, Sequence[str]]) -> list[str]:
    """Say once for all arms with the same reasons why a repetition could have another result."""
    arms: dict[str, list[str]] = {}
    for arm, reasons in obstacles.items():
        arms.setdefault("; ".join(reasons), []).append(arm)
    return [f"Reproducible: no, because {why} ({', '.join(names)})." for why, names in arms.items()]


def _check_cards(
    by_arm: Mapping[str, Sequence[Placed]], checks: Sequence[Check], recording_id: str
) -> Iterator[FindingCard]:
    """Yield a card for each statement that deviated or is unknown, with an episode that shows it."""
    for check in checks:
        if check.verdict == "held":
            continue
        keys = set(check.episodes)
        alike = [each for each in by_arm.get(check.arm, ()) if each.card.key in keys]
        because = f"; for example {alike[0].judged.why}" if alike and alike[0].judged.why else ""
        n = len(by_arm.get(check.arm, ()))
        yield FindingCard(
            severity="harmful" if check.verdict == "deviated" else "note",
            rule=check.assertion or "statement",
            text=f"{check.statement}: {measures_text(check)}{because}",
            seen=f"arm {check.arm}, {count_text(n, 'episode')}",
            cost="",
            helps="",
            href=f"#{alike[0].card.anchor}" if alike else "",
            command=alike[0].card.command if alike else f"wirefault report {recording_id}",
            label=check.verdict,
        )


def _statement_matrix(by_arm: Mapping[str, Sequence[Placed]], checks: Sequence[Check]) -> Matrix | None:
    if not checks:
        return None
    arms = list(dict.fromkeys(check.arm for check in checks))
    numbers = {(name, each.card.key): each.card.number for name, placed in by_arm.items() for each in placed}
    rows = []
    for statement in dict.fromkeys(check.statement for check in checks):
        cells: list[Cell | None] = []
        for arm in arms:
            check = next((c for c in checks if (c.arm, c.statement) == (arm, statement)), None)
            if check is None:
                cells.append(None)
                continue
            number = next((numbers[arm, key] for key in check.episodes if (arm, key) in numbers), 0)
            cells.append(
                Cell(
                    check.verdict,
                    {"held": "fine", "deviated": "harmful"}.get(check.verdict, "unknown"),
                    f"#{episode_anchor(number)}" if number else "",
                )
            )
        rows.append((statement, cells))
    return Matrix("Statements by arm", "statement", arms, rows)


def _statement_table(checks: Sequence[Check]) -> Table:
    rows = [(check.arm, check.statement, check.kind, check.verdict, measures_text(check)) for check in checks]
    return Table("Statements", ("arm", "statement", "kind", "verdict", "measured"), rows)


def _surface_tables(result: ExperimentResult) -> Iterator[Table]:
    """The surface, and the levels with how far the hypothesis held."""
    for figures in (*surface_figures(result), *level_figures(result)):
        title = f"{figures.title[:1].upper()}{figures.title[1:]}"
        yield Table(title, figures.columns, figures.rows, "; ".join(figures.lines))


def _effect_chart(effects: Sequence[FaultEffect]) -> Iterator[Chart]:
    rows = [
        points_row(f"{effect.fault} ({effect.arm})", effect.success, f", drawn in {effect.drawn}")
        for effect in effects
        if effect.success is not None
    ]
    if rows:
        says = (
            "Change of the success rate over the episodes for which the fault was planned, against the same"
            " episodes of the control, with its 95 % interval."
        )
        yield Chart(
            "Effect of each fault",
            says,
            intervals(rows, "Effect of each fault", "percentage points", zero=True),
        )
