"""The page of an audit."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from wirefault.audit.answers import Answer
from wirefault.audit.groups import finding_groups
from wirefault.audit.options import load_options
from wirefault.audit.questions import QUESTIONS
from wirefault.audit.result import AuditResult, worst_so_far
from wirefault.experiments.recorded import Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.judged_events import SEVERITIES, Finding, Severity
from wirefault.judging.ending import EARLY
from wirefault.report.audit import shown_key
from wirefault.report.audit_files import audit_as_json, audit_verdict
from wirefault.report.fixes import HELPS, WORDS, snippet_for
from wirefault.report.next_command import (
    command_on_run,
    episode_command,
    repeat_command,
    with_folder,
)
from wirefault.report.page.charts import latency_chart, provenance, request_table
from wirefault.report.page.costs import cost_rows, extra_row
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.figures import arm_figures, link_figures
from wirefault.report.page.findings import (
    actor_of,
    changed_replies,
    culprit_text,
    effect_of,
    episode_text,
    evidence_anchor,
    example_text,
    finding_layers,
    further,
    injected_text,
    reply_texts,
    where_text,
    who_text,
)
from wirefault.report.page.parts import (
    VERDICT_TONES,
    Cell,
    CostRow,
    Episodes,
    FindingCard,
    Matrix,
    PageContent,
    count_text,
    early_verdict,
    first_to_open,
    judged_episodes,
    resume_commands,
)
from wirefault.report.page.phrase import Figure, Phrase
from wirefault.report.page_links import audit_order, episode_anchor


def audit_content(recording: Recording, saved: SavedExperiment, result: AuditResult) -> PageContent:
    episodes = Episodes(saved.logs, recording.id)
    arm = recording.arm(None)
    words = _audit_words(result)
    recorded, summary = judged_episodes(arm)
    traces: dict[str, EpisodeCard] = {}
    for key in audit_order(recorded):
        answer, findings = words.get(key, _CLEAN)
        traces[key] = episodes.add(replace(recorded[key], findings=findings), answer=answer)
    numbers = {key: each.number for key, each in traces.items()}
    clean = traces.get("clean")
    cards = list(_audit_findings(result, traces, clean))
    verdict, tone = audit_verdict(result), VERDICT_TONES.get(audit_verdict(result), "open")
    if verdict in EARLY:
        verdict, tone = early_verdict(verdict, worst_so_far(recording))
    counts = _counts(result, cards)
    command = shlex.join(saved.plan.configuration.wiring.arguments[2:])
    seconds = Figure(f"{result.clean.seconds:.1f} s", "clean_seconds") if result.clean else "unknown"
    calls = Figure(len(result.clean.calls) if result.clean else 0, "calls")
    arms = [arm_figures("", summary, len(traces))]
    links = link_figures([each.trace for each in traces.values()])
    return PageContent(
        id=recording.id,
        title=saved.plan.experiment.title,
        kind="audit",
        tone=tone,
        verdict=verdict,
        sentence=Phrase(*_worst(cards), _audit_sentence(counts)),
        facts=[
            ("tested", Phrase(Figure(command, "command"), _SCRIPT if _is_scripted(saved) else "")),
            ("under", "one certain fault in each run, compared with two clean runs"),
            ("further answers", _answers_text(counts)),
            ("clean run", Phrase(calls, " calls, ", seconds)),
            ("seed", Figure(saved.plan.seed, "figures", "arms", 0, "seed")),
        ],
        commands=[
            (
                "repeat the whole audit",
                with_folder(_again(saved), saved.logs),
            ),
            (
                "keep it as an experiment",
                command_on_run(["wirefault", "init", recording.id], [], saved.logs),
            ),
            *resume_commands(recording),
        ],
        findings=cards,
        matrix=_question_matrix(result, numbers),
        charts=[*latency_chart(links)],
        tables=[*request_table(links)],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, {"": summary}),
        figures={"arms": arms, "episodes": episodes.rows, "links": links, "counts": counts},
        answers=audit_as_json(result),
        opened=first_to_open(cards, list(traces.values())),
    )


_SCRIPT = "; a script of the lab replaces its model"


def _is_scripted(saved: SavedExperiment) -> bool:
    intercept = saved.plan.configuration.wiring.intercept
    return intercept is not None and intercept.models == "scripted"


def _again(saved: SavedExperiment) -> str:
    """Return the command that asks the same questions again, under the same seed."""
    wiring, options = saved.plan.configuration.wiring, load_options(saved)
    words = [f"--seed={saved.plan.seed}"]
    if _is_scripted(saved):
        words.append("--scripted")
    known = [question for question in QUESTIONS.values() if not question.needs_resume]
    names = {question.name for question in options.chosen if not question.needs_resume}
    if names == {question.name for question in known}:
        words.append("--all")
    elif names != {question.name for question in known if question.default}:
        words += [f"--ask={question}" for question in options.questions]
    words += [f"--patience={options.patience:g}"] if options.patience else []
    words += [f"--write={pattern}" for pattern in options.writes]
    words += [f"--read={pattern}" for pattern in options.reads]
    words += [f"--writes={options.mode}"] if options.mode else []
    return shlex.join(["wirefault", "audit", *words, "--", *wiring.arguments[2:]])


def _worst(cards: Sequence[FindingCard]) -> Iterator[str]:
    """Yield the sentences about the worst finding: who did what, after which fault, how often."""
    if cards:
        yield from (*culprit_text(cards[0]), " (", cards[0].seen, "). ")


_SEVERITIES: Sequence[Severity] = ("harmful", "risky", "wasteful")


def _audit_sentence(counts: Mapping[str, int]) -> Phrase:
    def count(name: str, text: str = "") -> Figure:
        return Figure(text or counts[name], "figures", "counts", name)

    questions = count("questions", count_text(counts["questions"], "question"))
    return Phrase(
        *(count("finding"), " of ", questions, " had a finding; the same one to several is one below: "),
        *(count("harmful"), " HARM, ", count("risky"), " RISK, ", count("wasteful"), " WASTE. "),
        "Each ran once or a few times, so rare behaviour is not ruled out.",
    )


def _answers_text(counts: Mapping[str, int]) -> Phrase:
    """Count the answers without a finding."""

    def count(name: str) -> Figure:
        return Figure(counts[name], "figures", "counts", name)

    return Phrase("notes: ", count("note"), ", fine: ", count("fine"), ", unknown: ", count("unknown"))


def _counts(result: AuditResult, cards: Sequence[FindingCard]) -> dict[str, int]:
    """Count the questions by status, and the findings by severity."""
    status = Counter(
        "note" if answer.status == "fine" and answer.note else answer.status for answer in result.answers
    )
    severities = Counter(card.severity for card in cards)
    return {
        "questions": len(result.answers),
        **{name: status[name] for name in ("finding", "note", "fine", "unknown")},
        **{name: severities[name] for name in _SEVERITIES},
    }


_AuditWord = tuple[tuple[str, str, str], Sequence[Finding]]
_CLEAN: _AuditWord = ("clean", "s-clean", "clean run, without a fault"), ()


def _audit_words(result: AuditResult) -> dict[str, _AuditWord]:
    """Return the answer on the card of each run with a fault, and its findings, by episode."""
    words: dict[str, _AuditWord] = {}
    for answer in result.answers:
        for place, run in enumerate(answer.runs, start=1):
            key = answer.ask.id if place == 1 else f"{answer.ask.id}.r{place}"
            severity = min((seen.severity for seen in run.seen), key=SEVERITIES.index, default=None)
            status = "note" if run.status == "fine" and run.note else run.status
            findings = [structs.replace(each, episode=key) for each in run.seen]
            if run.note or run.why:
                findings.append(Finding("", "note", run.note or run.why, key, ()))
            word = WORDS[severity] if severity else status
            title = f"{answer.ask.id}  {answer.ask.text}"
            words[key] = (word, f"s-{severity or status}", title), findings
    return words


def _audit_findings(
    result: AuditResult, traces: Mapping[str, EpisodeCard], clean: EpisodeCard | None
) -> Iterator[FindingCard]:
    for place, group in enumerate(finding_groups(result.answers)):
        answer, at = group.answers[0], ("findings", place)
        key = shown_key(answer)
        example = traces.get(key)
        seen, of = group.times
        layers = finding_layers(example.trace, group.worst.evidence) if example else []
        keys = dict.fromkeys([key, *(each for of_one in group.answers for each in _seen_in(of_one))])
        alike = [traces[each] for each in keys if each in traces]
        yield FindingCard(
            group.worst.severity,
            group.worst.rule,
            Figure(group.text, *at, "text"),
            Phrase(
                "in ",
                Figure(seen, *at, "seen"),
                " of ",
                Figure(count_text(of, "run"), *at, "of"),
                f", {'question' if len(group.ids) == 1 else 'questions'} {', '.join(group.ids)}",
            ),
            _costs(example, clean) if example else [],
            HELPS.get(group.worst.rule, ""),
            f"#{evidence_anchor(example, group.worst.evidence)}" if example else "",
            episode_command(result.saved.experiment_id, key, result.saved.logs),
            repeat_command(result.saved.experiment_id, key, result.saved.logs),
            actor := actor_of(group.worst.rule, layers, example.trace if example else None),
            who_text(actor, layers, example),
            also=further(alike),
            headline=Figure(group.worst.headline, *at, "headline"),
            snippet=snippet_for(group.worst),
            example=example_text(alike) if alike else "",
            injected=injected_text(example, group.worst.evidence) if example else "",
            where=where_text(example, group.worst.evidence) if example else "",
            replies=reply_texts(example, group.worst.rule, group.worst.evidence) if example else (),
            both_sides=changed_replies(example, group.worst.evidence) if example else (),
            effect=effect_of(group.worst.rule, group.worst.evidence, [(each, clean) for each in alike]),
            episode=episode_text(example) if example else "",
        )


def _seen_in(answer: Answer) -> Iterator[str]:
    """Yield the keys of the runs that show the worst finding."""
    rule = answer.worst.rule if answer.worst else ""
    for place, run in enumerate(answer.runs):
        if run in answer.counted and any(each.rule == rule for each in run.seen):
            yield answer.ask.id if place == 0 else f"{answer.ask.id}.r{place + 1}"


def _costs(example: EpisodeCard, clean: EpisodeCard | None) -> list[CostRow]:
    rows = cost_rows(example, [], ("the run with the fault", ""))
    if clean is None:
        return rows
    return [*rows, *cost_rows(clean, [], ("the clean run", "")), extra_row(example, clean)]


def _question_matrix(result: AuditResult, numbers: Mapping[str, int]) -> Matrix | None:
    columns = list(dict.fromkeys(answer.ask.call.text for answer in result.answers))
    names = list(dict.fromkeys(answer.ask.question.name for answer in result.answers))
    rows = []
    for name in names:
        cells: list[Cell | None] = []
        ids = [each.ask.id for each in result.answers if each.ask.question.name == name]
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
        rows.append((f"{name.replace('_', ' ')} ({', '.join(ids)})", cells))
    return Matrix("Questions by call", "question", columns, rows) if rows else None
