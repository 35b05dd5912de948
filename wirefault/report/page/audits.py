"""The page of an audit."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wirefault.audit.groups import finding_groups
from wirefault.audit.result import AuditResult
from wirefault.experiments.recorded import Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.judging.checker import SEVERITIES
from wirefault.judging.findings.finding import Finding
from wirefault.report.audit import shown_key
from wirefault.report.next_command import episode_command, repeat_command
from wirefault.report.page.episode import event_anchor
from wirefault.report.page.helps import HELPS
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
    judged_episodes,
    latency_chart,
    provenance,
    request_table,
    size_text,
    who_repeated,
)
from wirefault.report.page_links import audit_order, episode_anchor


def audit_content(recording: Recording, saved: SavedExperiment, result: AuditResult) -> PageContent:
    episodes = Episodes(saved.logs, recording.id)
    arm = recording.arm(None)
    words = _audit_words(result)
    recorded, summary = judged_episodes(arm)
    traces: dict[str, Placed] = {}
    for key in audit_order(recorded):
        named = words.get(key, _AuditWord("clean", "s-clean", "clean run, without a fault"))
        episode = replace(recorded[key], findings=named.findings)
        traces[key] = episodes.add(episode, word=named.word, tone=named.tone, title=named.title)
    numbers = {key: each.card.number for key, each in traces.items()}
    clean = traces.get("clean")
    cards = list(_audit_findings(result, traces, clean))
    verdict, tone = _audit_verdict(result, cards)
    command = shlex.join(saved.plan.configuration.wiring.arguments[2:])
    seconds = f"{clean.card.seconds:.1f} s" if clean else "unknown"
    return PageContent(
        id=recording.id,
        title=saved.plan.experiment.title,
        kind="audit",
        tone=tone,
        verdict=verdict,
        sentence=_audit_sentence(result, cards),
        facts=[
            ("tested", command),
            ("under", "one certain fault in each run, compared with two clean runs"),
            ("clean run", f"{len(result.clean.calls) if result.clean else 0} calls, {seconds}"),
            ("seed", str(saved.plan.seed)),
        ],
        commands=[
            ("repeat it", f"wirefault audit -- {command}"),
            ("keep it as an experiment", f"wirefault init {recording.id}"),
        ],
        findings=cards,
        matrix=_question_matrix(result, numbers),
        charts=[*latency_chart(list(traces.values()))],
        tables=[*request_table(list(traces.values()))],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, summary),
    )


def _audit_verdict(result: AuditResult, cards: Sequence[FindingCard]) -> tuple[str, Tone]:
    severities = {card.severity for card in cards}
    if "harmful" in severities:
        return "harm found", "bad"
    if "risky" in severities:
        return "risk found", "risk"
    if not result.answers or any(answer.status == "unknown" for answer in result.answers):
        return "unknown", "open"
    return "nothing harmful found", "good"


def _audit_sentence(result: AuditResult, cards: Sequence[FindingCard]) -> str:
    status = Counter(
        "note" if answer.status == "fine" and answer.note else answer.status for answer in result.answers
    )
    counts = Counter(card.severity for card in cards)
    return (
        f"Of {count_text(len(result.answers), 'question')}, {status['finding']} had a finding,"
        f" {status['note']} a note, {status['fine']} were fine and {status['unknown']} unknown:"
        f" {counts['harmful']} harmful and"
        f" {counts['risky']} risky behaviours. Each fault was certain. Each question ran once or a few times,"
        " so rare behaviour is not ruled out."
    )


@dataclass(frozen=True)
class _AuditWord:
    """How an episode of an audit is named on the page."""

    word: str
    tone: str
    title: str
    findings: Sequence[Finding] = ()


def _audit_words(result: AuditResult) -> dict[str, _AuditWord]:
    words = {}
    for answer in result.answers:
        for place, run in enumerate(answer.runs, start=1):
            key = answer.ask.id if place == 1 else f"{answer.ask.id}.r{place}"
            severity = min((seen.severity for seen in run.seen), key=SEVERITIES.index, default=None)
            status = "note" if run.status == "fine" and run.note else run.status
            findings = [Finding(each.rule, each.severity, each.text, key, each.evidence) for each in run.seen]
            if run.note or run.why:
                findings.append(Finding("", "note", run.note or run.why, key, ()))
            words[key] = _AuditWord(
                WORDS[severity] if severity else status,
                f"s-{severity or status}",
                f"{answer.ask.id}  {answer.ask.text}",
                findings,
            )
    return words


def _audit_findings(
    result: AuditResult, traces: Mapping[str, Placed], clean: Placed | None
) -> Iterator[FindingCard]:
    for group in finding_groups(result.answers):
        answer = group.answers[0]
        key = shown_key(answer)
        example = traces.get(key)
        seen, of = group.times
        yield FindingCard(
            group.worst.severity,
            group.worst.rule,
            group.text,
            f"in {seen} of {count_text(of, 'run')}, {'question' if len(group.ids) == 1 else 'questions'} "
            f"{', '.join(group.ids)}",
            _audit_cost(example, clean) if example else "",
            HELPS.get(group.worst.rule, ""),
            f"#{_evidence_anchor(example, group.worst.evidence)}" if example else "",
            episode_command(result.saved.experiment_id, key, result.saved.logs),
            repeat_command(result.saved.experiment_id, key, result.saved.logs),
            who_repeated(example, group.worst.evidence) if example else "",
        )


def _audit_cost(example: Placed, clean: Placed | None) -> str:
    return size_text(example) + ("" if clean is None else f"; the clean run {size_text(clean)}")


def _evidence_anchor(example: Placed, evidence: Sequence[str]) -> str:
    ids = {id.rpartition("/")[2] for request in example.trace.requests for id in request.ids}
    bare = next((id.rpartition("/")[2] for id in evidence if id.rpartition("/")[2] in ids), "")
    return event_anchor(example.card.number, bare) if bare else example.card.anchor


def _question_matrix(result: AuditResult, numbers: Mapping[str, int]) -> Matrix | None:
    columns = list(dict.fromkeys(answer.ask.call.text for answer in result.answers))
    names = list(dict.fromkeys(answer.ask.question.name for answer in result.answers))
    rows = []
    for name in names:
        cells: list[Cell | None] = []
        for column in columns:
            answer = next(
                (
                    each
                    for each in result.answers
                    if each.ask.question.name == name and each.ask.call.text == column
                ),
                None,
            )
            if answer is None:
                cells.append(None)
                continue
            severity = answer.worst.severity if answer.worst else None
            status = "note" if answer.status == "fine" and answer.note else answer.status
            number = numbers.get(shown_key(answer), 0)
            href = f"#{episode_anchor(number)}" if number else ""
            cells.append(Cell(WORDS[severity] if severity else status, severity or status, href))
        rows.append((name.replace("_", " "), cells))
    return Matrix("Questions by call", "question", columns, rows) if rows else None
