"""The page of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.judging.checker import SEVERITIES
from wirefault.judging.findings.conduct import masked
from wirefault.judging.summary import Summary, recoveries_text
from wirefault.report.page.charts import (
    fault_tables,
    faults_text,
    latency_chart,
    outcome_chart,
    provenance,
    request_table,
)
from wirefault.report.page.episode import EpisodeCard, event_anchor
from wirefault.report.page.figures import CONFIDENCE, RULED_OUT, arm_figures, link_figures
from wirefault.report.page.findings import finding_cards
from wirefault.report.page.parts import (
    WORDS,
    Cell,
    Episodes,
    FindingCard,
    Matrix,
    PageContent,
    Placed,
    Tone,
    count_text,
    first_to_open,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised
from wirefault.report.reproduce import summary_command
from wirefault.stats.exact import ruled_out_above
from wirefault.stats.rates import percent

_ARM = ("figures", "arms", 0)


def run_content(recording: Recording, arm: RecordedArm, title: str) -> PageContent:
    episodes = Episodes(arm.logs, recording.id)
    placed = episodes.add_arm(arm)
    summary = episodes.summaries[arm.name]
    calm = [each for each in placed if not each.card.faults]
    cards = finding_cards(placed, calm)
    verdict, tone = _run_verdict(summary, cards)
    arms, links = [arm_figures("", summary, len(placed))], link_figures([each.trace for each in placed])
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
        charts=[*outcome_chart(arms), *latency_chart(links)],
        tables=[*request_table(links), *fault_tables(arms, {"": summary.faults})],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, summary),
        remarks=[Figure(text, *_ARM, "remarks", place) for place, text in enumerate(summary.remarks)],
        figures={"arms": arms, "episodes": episodes.rows, "links": links},
        opened=first_to_open(cards, placed),
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
    count = Figure(count_text(n, "episode"), *_ARM, "episodes")
    parts: list[str]
    if bad:
        parts = [f"{cards[0].actor}: ", cards[0].text] if cards[0].actor else [cards[0].text]
        parts += [f" ({len(bad)} of ", count, " had a harmful or risky finding)"] if n > 1 else []
    else:
        parts = ["no harmful or risky finding in ", count]
        if n:
            rate = percent(ruled_out_above(n, RULED_OUT))
            parts += ["; a rate above ", Figure(rate, *_ARM, "ruled_out"), " is ruled out"]
    success = summary.success
    if success.n:
        parts += [". The task succeeded in ", Figure(success.k, *_ARM, "success", "k"), " of "]
        parts += [Figure(success.n, *_ARM, "success", "n")]
        if success.low is not None and success.high is not None:
            low, high = percent(success.low), percent(success.high)
            parts += [" (", Figure(percent(CONFIDENCE), *_ARM, "confidence"), " interval "]
            parts += [Figure(low, *_ARM, "success", "low"), " to "]
            parts += [Figure(high, *_ARM, "success", "high"), ")"]
    if summary.faults and not any(row.met for row in summary.faults):
        parts += [
            ". No fault is known to have met a request: this shows nothing about behaviour under faults"
        ]
    return capitalised(Phrase(*parts, "."))


def _run_facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "seed", Figure(summary.seed, *_ARM, "seed")
    if summary.duration_s is not None:
        yield "duration", Figure(f"{summary.duration_s:.1f} s", *_ARM, "duration_s")
    usage, at = summary.model_usage, (*_ARM, "model_usage")
    if usage.with_usage:
        tokens = [Figure(f"{usage.tokens_in} in", *at, "tokens_in"), ", "]
        tokens += [Figure(f"{usage.tokens_out} out", *at, "tokens_out")]
        if usage.cost_usd is not None:
            tokens += [", ", Figure(f"{usage.cost_usd:.4g} USD", *at, "cost_usd")]
        yield "model tokens", Phrase(*tokens)
    if summary.recoveries:
        yield "recoveries that helped", Figure(recoveries_text(summary.recoveries), *_ARM, "recoveries")
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
