"""The page of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from wirefault.experiments.index import early_word
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.history.judged_events import SEVERITIES, Severity
from wirefault.judging.account import nothing_known
from wirefault.judging.ending import EARLY, FINE, FOUND, UNDECIDED, run_word, shows_nothing
from wirefault.judging.findings.conduct import masked
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.summary import Summary, recoveries_text
from wirefault.report.fixes import WORDS
from wirefault.report.next_command import with_folder
from wirefault.report.page.charts import (
    fault_tables,
    kill_table,
    latency_chart,
    outcome_chart,
    provenance,
    reached_text,
    request_table,
)
from wirefault.report.page.episode import EpisodeCard, event_anchor
from wirefault.report.page.figures import CONFIDENCE, RULED_OUT, arm_figures, link_figures, reached_figures
from wirefault.report.page.findings import causing_requests, culprit_text, finding_cards
from wirefault.report.page.parts import (
    VERDICT_TONES,
    Cell,
    Episodes,
    FindingCard,
    Matrix,
    PageContent,
    Tone,
    count_text,
    early_verdict,
    first_to_open,
    resume_commands,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised, joined
from wirefault.report.reproduce import summary_command
from wirefault.stats.exact import ruled_out_above
from wirefault.stats.rates import percent

_ARM = ("figures", "arms", 0)
_MAX_NAMED = 8
"""Episodes without success that the first sentences name."""


def run_content(recording: Recording, arm: RecordedArm, title: str) -> PageContent:
    episodes = Episodes(arm.logs, recording.id)
    placed = episodes.add_arm(arm)
    summary = episodes.summaries[arm.name]
    calm = [each for each in placed if not each.faults]
    cards = finding_cards(placed, calm)
    early = early_word(arm.logs, recording.id) or run_word(summary)
    verdict, tone = early_verdict(early, summary.worst) if early in EARLY else _run_verdict(summary, placed)
    reached = reached_figures(summary, placed)
    grave = {"with_findings": sum(map(_has_finding, placed))}
    arms = [arm_figures("", summary, len(placed)) | reached | grave]
    links = link_figures([each.trace for each in placed])
    return PageContent(
        id=recording.id,
        title=title,
        kind="run",
        tone=tone,
        verdict=verdict,
        sentence=_run_sentence(summary, placed, cards),
        facts=[
            ("tested", _tested_text(summary)),
            ("under", reached_text(arms, summary.faults)),
            *_run_facts(summary),
        ],
        commands=[*_run_commands(summary, arm.logs), *resume_commands(recording)],
        findings=cards,
        matrix=_fault_matrix(placed),
        charts=[*outcome_chart(arms), *latency_chart(links)],
        tables=[*request_table(links), *fault_tables(arms, {"": summary.faults}), *kill_table(arms)],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, {"": summary}),
        remarks=[Figure(text, *_ARM, "remarks", place) for place, text in enumerate(summary.remarks)],
        figures={"arms": arms, "episodes": episodes.rows, "links": links},
        opened=first_to_open(cards, placed),
    )


def _run_verdict(summary: Summary, placed: Sequence[EpisodeCard]) -> tuple[str, Tone]:
    """The word of a complete run, and what limits it."""
    word = run_word(summary)
    if word in FOUND.values():
        return word, VERDICT_TONES[word]
    if word == UNDECIDED:
        return Phrase(word, ": ", shows_nothing(summary)), "open"
    judged = sum(each.is_judged for each in placed)
    parts: list[str] = [word] if word == FINE else [word, ", ", FINE]
    because = _failed_text(placed)
    if placed and not judged:
        return Phrase(*parts, "; not judged: ", because or _no_outcome(placed)), "open"
    if judged < len(placed):
        share = [Figure(judged, *_ARM, "judged"), " of ", Figure(len(placed), *_ARM, "episodes")]
        return Phrase(*parts, " in the judged episodes, ", *share), "open"
    if because:
        return Phrase(*parts, ", but ", because), "open"
    return Phrase(*parts), "good" if summary.episodes and word == FINE else "open"


def _no_outcome(placed: Sequence[EpisodeCard]) -> str:
    without = all("no oracle" in each.judged.why for each in placed)
    return "no prompt has an oracle" if without else "no episode has an outcome"


def _failed_text(placed: Sequence[EpisodeCard]) -> str:
    """Name the exit code of the first command that failed; empty for none."""
    failed = next((each for each in placed if each.exit_text), None)
    if failed is None:
        return ""
    return Phrase("the agent failed with ", failed.figure(failed.exit_text, "why"))


def _run_sentence(summary: Summary, placed: Sequence[EpisodeCard], cards: Sequence[FindingCard]) -> str:
    n = len(placed)
    if failure := summary.lab_failed_because or summary.servers_failed_because:
        return failure
    bad = [each for each in placed if _has_finding(each)]
    count = Figure(count_text(n, "episode"), *_ARM, "episodes")
    parts: list[str]
    if bad:
        parts = culprit_text(cards[0])
        parts += (
            [
                " (",
                Figure(len(bad), *_ARM, "with_findings"),
                " of ",
                count,
                " had a harmful or risky finding)",
            ]
            if n > 1
            else []
        )
    else:
        parts = ["no harmful or risky finding in ", count, *_judged_part(placed)]
    success = summary.success
    if success.n == success.planned == 1:
        parts += [f". The task {'succeeded' if success.k else 'failed'}", *_failed_episodes(placed, ": ")]
    elif success.n:
        parts += [". The task succeeded in ", Figure(success.k, *_ARM, "success", "k"), " of "]
        parts += [Figure(success.n, *_ARM, "success", "n")]
        if success.low is not None and success.high is not None:
            low, high = percent(success.low), percent(success.high)
            parts += [" (", Figure(percent(CONFIDENCE), *_ARM, "confidence"), " interval "]
            parts += [Figure(low, *_ARM, "success", "low"), " to "]
            parts += [Figure(high, *_ARM, "success", "high"), ")"]
        parts += _failed_episodes(placed)
        if success.n < success.planned and success.worst is not None and success.best is not None:
            parts += ["; of all ", Figure(success.planned, *_ARM, "success", "planned"), " planned, between "]
            parts += [Figure(percent(success.worst), *_ARM, "success", "worst"), " and "]
            parts += [Figure(percent(success.best), *_ARM, "success", "best")]
    if unknown := nothing_known(summary.faults, summary.settings):
        parts += [f". {unknown[0].upper()}{unknown[1:]}"]
    return capitalised(Phrase(*parts, "."))


def _failed_episodes(placed: Sequence[EpisodeCard], before: str = ", but not in ") -> Iterator[str]:
    """Yield the judged episodes that did not succeed, linked, by their outcome; ``before`` precedes them."""
    failed = [each for each in placed if each.is_judged and each.judged.outcome != "success"]
    by_outcome: dict[str, list[EpisodeCard]] = defaultdict(list)
    for each in failed[:_MAX_NAMED]:
        by_outcome[each.judged.outcome].append(each)
    lists: list[str] = []
    for outcome, episodes in by_outcome.items():
        row = OUTCOMES[outcome]  # type: ignore[index]
        numbers = [each.figure(each.number, "number").linked(f"#{each.anchor}") for each in episodes]
        noun = "episode " if len(episodes) == 1 else "episodes "
        lists.append(
            Phrase(noun, joined(", ", [*numbers]), f" ({row.name.replace('_', ' ')}: {row.meaning})")
        )
    if lists:
        yield from (before, joined(", ", lists))
    if len(failed) > _MAX_NAMED:
        yield " and more, which the filter by outcome lists"


def _has_finding(placed: EpisodeCard) -> bool:
    return any(finding.severity in ("harmful", "risky") for finding in placed.findings)


def _judged_part(placed: Sequence[EpisodeCard]) -> list[str]:
    """Say which rate is ruled out by the episodes that were judged, and why others were not."""
    parts: list[str] = []
    judged = sum(each.is_judged for each in placed)
    if judged:
        of = [] if judged == len(placed) else ["of the ", Figure(judged, *_ARM, "judged"), " judged ones "]
        rate = Figure(percent(ruled_out_above(judged, RULED_OUT)), *_ARM, "ruled_out")
        parts += ["; ", *of, "a rate above ", rate, " is ruled out"]
    unjudged = [each for each in placed if not each.is_judged]
    if unjudged:
        first = unjudged[0]
        which = "it was" if len(placed) == 1 else "the others were" if judged else "they were"
        parts += [f"; {which} not judged: "]
        parts += [first.figure(first.judged.why or first.judged.outcome, "why")]
    if any("no oracle" in each.judged.why for each in unjudged):
        parts += [". To judge a prompt, give it an oracle, its expect in the prompts file: docs/outcomes.md"]
    return parts


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
        return [("repeat the whole run", with_folder(summary_command(summary), logs))]
    except ValueError:
        return []


def _tested_text(summary: Summary) -> Phrase:
    """Name the subject; say so if it is the lab's own."""
    own = "" if summary.wiring_arguments else "the lab's own agent, not yours: "
    return Phrase(own, Figure(summary.subject, *_ARM, "subject"))


def _fault_matrix(placed: Sequence[EpisodeCard]) -> Matrix | None:
    """Faults by the calls that they acted on: the worst finding that they may explain, or outcome.

    ``fine`` only for a success. A toxic acts on the connections of its link, not on one call.
    """
    cells: dict[str, dict[str, tuple[int, Cell]]] = defaultdict(dict)
    columns: dict[str, None] = {}
    for each in placed:
        for fault, column, event in _acted(each):
            columns[column] = None
            cell = _matrix_cell(each, event)
            cells[fault][column] = min(cells[fault].get(column, cell), cell, key=lambda pair: pair[0])
    rows = [
        (fault, [by_column[column][1] if column in by_column else None for column in columns])
        for fault, by_column in sorted(cells.items())
    ]
    return Matrix("Faults by call", "fault", list(columns), rows) if rows else None


def _acted(placed: EpisodeCard) -> Iterator[tuple[str, str, str]]:
    """Yield each fault that acted, the name of its call, and the event of that."""
    for request in placed.trace.requests:
        for fault in request.injected:
            name = f"{request.link_name}: {masked(request.name)}"
            yield fault.id or fault.kind, name, request.ids[0] if request.ids else ""
    for record in placed.judged.faults:
        if record.source == "toxic" and record.delivered:
            yield f"toxic {record.kind}", f"{record.link}: connections", ""


def _may_explain(placed: EpisodeCard, event: str, evidence: Sequence[str]) -> bool:
    """Return whether the fault on that request may have caused the finding; always if it is the only one."""
    causes = causing_requests(placed, evidence)
    return not event or not causes or any(event in request.ids for request in causes)


def _matrix_cell(placed: EpisodeCard, event: str) -> tuple[int, Cell]:
    """Return the cell of an episode and its rank, 0 for the worst: a finding, else what its outcome says."""
    row = OUTCOMES[placed.judged.outcome]
    href = f"#{event_anchor(placed.number, event) if event else placed.anchor}"
    severities: list[Severity] = [
        finding.severity for finding in placed.findings if _may_explain(placed, event, finding.evidence)
    ]
    worst: Severity = min(severities, key=SEVERITIES.index, default="note")
    if worst != "note":
        return SEVERITIES.index(worst), Cell(WORDS[worst], worst, href)
    if placed.exit_text or row.tone != "good":
        word = "failed" if placed.exit_text else row.name.replace("_", " ")
        return len(SEVERITIES), Cell(word, "unknown", href)
    if severities:
        return len(SEVERITIES) + 1, Cell(WORDS["note"], "note", href)
    return len(SEVERITIES) + 2, Cell("fine", "fine", href)
