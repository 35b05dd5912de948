"""The page of two recordings side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from wirefault.experiments.compare import ArmComparison, Change, Comparison
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.judging.checker import SEVERITIES
from wirefault.judging.findings.conduct import masked
from wirefault.judging.findings.finding import Finding
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.judging.summary import Summary
from wirefault.report.comparison import comparison_sentences
from wirefault.report.next_command import command_on_run
from wirefault.report.page.charts import points_row, signed
from wirefault.report.page.episode import RecordedEpisode, event_anchor
from wirefault.report.page.findings import injected_text
from wirefault.report.page.parts import (
    WORDS,
    Cell,
    Chart,
    Episodes,
    Matrix,
    PageContent,
    Placed,
    Table,
    Tone,
    count_text,
    judged_episodes,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised
from wirefault.report.page.svg import intervals
from wirefault.stats.rates import percent

_TONES: Mapping[Change, Tone] = {"worse": "bad", "not worse": "good", "unknown": "open"}
_MAX_EPISODES = 200
"""Changed episodes of an arm that are shown."""
_MAX_PROMPT = 80
_COLUMNS = ("first", "second", "diverged at", "faults by the lab")
_MEASURES_NOTE = (
    "difference: of the rounded figures; a toxic is one delivered fault and can fail several tries, and tries"
    " also fail without a fault, so tries that failed and faults_delivered differ"
)
_Sides = tuple[Mapping[str, RecordedEpisode], Mapping[str, RecordedEpisode]]


def comparison_content(first: Recording, second: Recording, comparison: Comparison) -> PageContent:
    """Show two recordings: what differs, and each episode whose outcome changed, on both sides."""
    recordings = (first, second)
    episodes = Episodes(next(iter(first.arms.values())).logs, first.id)
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    arms: list[tuple[Summary, Summary]] = []
    findings: list[dict[str, Any]] = []
    for arm in comparison.arms:
        (one, summary), (other, second_summary) = (judged_episodes(_arm_of(r, arm.arm)) for r in recordings)
        arms.append((summary, second_summary))
        findings += _finding_figures(_name(arm), (one.values(), other.values()))
        rows += _changed_rows(episodes, arm, (one, other), (first.id, second.id))
    sides = [_side_figures([pair[side] for pair in arms]) for side in (0, 1)]
    figures: dict[str, Any] = {
        **_change_counts(comparison),
        "sides": sides,
        "findings": findings,
        "differences": [_differences(arm) for arm in comparison.arms],
        "episodes": episodes.rows,
    }
    lines = [
        Phrase(f"{name}: " if (name := _name(arm)) else "", Figure(line, "arms", place))
        for place, arm in enumerate(comparison.arms)
        for line in comparison_sentences(arm)
    ]
    tables = [table for place, arm in enumerate(comparison.arms) for table in _tables(arm, place)]
    return PageContent(
        id=f"{first.id} and {second.id}",
        title="Two recordings compared",
        kind="comparison",
        tone=_TONES[comparison.change],
        verdict={"unknown": "perhaps worse"}.get(comparison.change, comparison.change),
        sentence=_sentence(figures),
        facts=[
            ("first", Phrase(Figure(first.id, "first"), ": ", _side_text(sides[0], 0))),
            ("second", Phrase(Figure(second.id, "second"), ": ", _side_text(sides[1], 1))),
            *(("success" if "success" in line else "episodes", line) for line in lines),
        ],
        commands=[
            (
                "compare again",
                command_on_run(["wirefault", "compare", first.id, second.id], [], episodes.logs),
            ),
            *(
                (f"run the {word} again", _again(recording))
                for word, recording in zip(("first", "second"), recordings, strict=True)
            ),
        ],
        findings=[],
        matrix=Matrix("Episodes whose outcome changed", "episode", _COLUMNS, rows) if rows else None,
        charts=list(_difference_chart(comparison.arms)),
        tables=[*_finding_table(findings), *tables],
        episodes=episodes.cards,
        provenance=[
            ("evidence of the first", first.evidence.text),
            ("evidence of the second", second.evidence.text),
        ],
        remarks=[f"{name} is in one of them only, and was not compared." for name in comparison.unmatched],
        figures=figures,
    )


def _name(arm: ArmComparison) -> str:
    """The arm's name; empty for a lone run."""
    return "" if arm.arm in (PLAIN_RUN, "run") else arm.arm


def _again(recording: Recording) -> str:
    """Return the command that runs a recording again."""
    logs = next(iter(recording.arms.values())).logs
    return command_on_run(["wirefault", "run", "--again", recording.id], [], logs)


def _change_counts(comparison: Comparison) -> dict[str, int]:
    """Count the episodes in both, and the changed ones by direction: outcomes are ranked from the best."""
    ranks = {name: place for place, name in enumerate(OUTCOMES)}
    changes = [change for arm in comparison.arms for change in arm.changed]
    known = [
        (ranks[change.first], ranks[change.second])  # type: ignore[index]
        for change in changes
        if all(OUTCOMES[each].in_rate for each in (change.first, change.second))  # type: ignore[index]
    ]
    return {
        "changed": len(changes),
        "better": sum(after < before for before, after in known),
        "worse": sum(after > before for before, after in known),
        "undecided": len(changes) - len(known),
    }


def _side_figures(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Describe one recording: what was tested, its seed, and the faults that reached it."""
    faults = [row for summary in summaries for row in summary.faults]
    return {
        "subject": ", ".join(dict.fromkeys(summary.subject for summary in summaries)),
        "seed": summaries[0].seed if summaries else None,
        "episodes": sum(len(summary.episodes) for summary in summaries),
        "delivered": sum(row.delivered or 0 for row in faults),
        "unknown": sum(row.delivered is None for row in faults),
        "faults": list(dict.fromkeys(row.name for row in faults if row.delivered)),
    }


def _side_text(side: Mapping[str, Any], place: int) -> Phrase:
    at = ("figures", "sides", place)
    return Phrase(
        Figure(side["subject"], *at, "subject"),
        "; seed ",
        Figure(side["seed"], *at, "seed"),
        "; ",
        Figure(count_text(side["episodes"], "episode"), *at, "episodes"),
        "; ",
        _delivered_text(side, place),
        *([" (", Figure(", ".join(side["faults"]), *at, "faults"), ")"] if side["faults"] else []),
    )


def _delivered_text(side: Mapping[str, Any], place: int) -> Phrase:
    count = Figure(count_text(side["delivered"], "fault"), "figures", "sides", place, "delivered")
    return Phrase("at least " if side["unknown"] else "", count, " delivered")


def _sentence(figures: Mapping[str, Any]) -> Phrase:
    """Say how many got better and worse, and what else differs than the agent."""
    parts: list[str] = [
        *(
            Figure(count_text(figures["better"], "episode"), "figures", "better"),
            " of the second got better, ",
        ),
        *(Figure(figures["worse"], "figures", "worse"), " got worse"),
    ]
    if figures["undecided"]:
        parts += [", ", Figure(figures["undecided"], "figures", "undecided"), " changed to or from unjudged"]
    one, other = figures["sides"]
    parts += [". ", capitalised(_delivered_text(one, 0)), " in the first, "]
    parts += [_delivered_text(other, 1), " in the second"]
    differ = [
        name
        for name, key in (("the seeds", "seed"), ("the numbers of faults", "delivered"))
        if one[key] != other[key]
    ]
    if differ:
        parts += [f"; {' and '.join(differ)} differ, so the change may come from the faults, not the agent"]
    if one["subject"] != other["subject"]:
        parts += ["; the agents differ"]
    return capitalised(Phrase(*parts, "."))


def _finding_figures(
    arm: str, sides: tuple[Iterable[RecordedEpisode], Iterable[RecordedEpisode]]
) -> list[dict[str, Any]]:
    """Count the episodes with each finding on both sides, the worst first; notes are left out."""
    rows: dict[tuple[str, str], tuple[Finding, list[set[str]]]] = {}
    for place, side in enumerate(sides):
        for episode in side:
            for finding in episode.findings:
                if finding.severity != "note":
                    key = finding.rule, masked(finding.text)
                    rows.setdefault(key, (finding, [set(), set()]))[1][place].add(finding.episode)
    return [
        {
            "arm": arm,
            "severity": finding.severity,
            "rule": finding.rule,
            "text": finding.text,
            "first": len(counts[0]),
            "second": len(counts[1]),
        }
        for finding, counts in sorted(rows.values(), key=lambda row: SEVERITIES.index(row[0].severity))
    ]


def _finding_table(findings: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    rows = []
    for place, row in enumerate(findings):
        at = ("figures", "findings", place)
        text = Phrase(f"{row['arm']}: " if row["arm"] else "", Figure(row["text"], *at, "text"))
        counts = [Figure(row[side], *at, side) for side in ("first", "second")]
        rows.append((WORDS[row["severity"]], text, *counts))
    if rows:
        note = "in so many episodes of each recording; the text is one example's"
        yield Table("Findings of each", ("", "finding", "first", "second"), rows, note)


_LEADING = re.compile(r"([-+]?\d+(?:\.\d+)?)( %| s| USD)?(?![\w.])")


def _differences(arm: ArmComparison) -> dict[str, str]:
    """Return the second's measures less the first's, of the rounded figures shown; without open ones."""
    texts = {}
    for name, sides in arm.measures.items():
        one, other = (_LEADING.match(side) for side in sides)
        if one and other and one[2] == other[2] and " to unknown" not in "".join(sides):
            unit = " points" if one[2] == " %" else one[2] or ""
            texts[name] = f"{signed(round(float(other[1]) - float(one[1]), 6))}{unit}"
    return texts


def _arm_of(recording: Recording, name: str) -> RecordedArm:
    return recording.arms.get(name) or recording.arm(None)


def _changed_rows(
    episodes: Episodes, arm: ArmComparison, sides: _Sides, ids: tuple[str, str]
) -> Iterator[tuple[str, Sequence[Cell | None]]]:
    """Add both sides of each changed episode; yield its row, with the first request that differs."""
    prefix = f"{name}, " if (name := _name(arm)) else ""
    for change in arm.changed[:_MAX_EPISODES]:
        if any(change.episode not in side for side in sides):
            continue
        placed = [
            episodes.add(
                side[change.episode],
                arm=f"{prefix}{name}",
                shown_arm=arm.arm if prefix else "",
                recording_id=recording_id,
            )
            for name, side, recording_id in zip(("first", "second"), sides, ids, strict=True)
        ]
        cells = [Cell(each.card.word, "plain", f"#{each.card.anchor}") for each in placed]
        cells += [_divergence(placed), _faults(placed)]
        yield f"{prefix}{change.episode}: {change.prompt[:_MAX_PROMPT]}", cells


def _divergence(placed: Sequence[Placed]) -> Cell:
    """Name the first request that differs, with a link to the second's, or to the first's if it has none."""
    difference = first_difference(*(each.trace.requests for each in placed))
    if difference is None:
        return Cell("no request differs", "plain")
    place, one, other = difference
    card, request = (placed[1].card, other) if other else (placed[0].card, one)
    anchor = event_anchor(card.number, request.ids[0]) if request and request.ids else card.anchor
    placed[1].row["diverged"] = {"request": place, "first": _text(one), "second": _text(other)}
    number, *sides = (
        placed[1].figure(text, "diverged", key) for key, text in placed[1].row["diverged"].items()
    )
    return Cell(
        Phrase("request ", number, ": first: ", sides[0], ", second: ", sides[1]), "plain", f"#{anchor}"
    )


def _faults(placed: Sequence[Placed]) -> Cell:
    """Say what the lab injected on each side."""
    one, other = (injected_text(each, ()) or "none" for each in placed)
    return Cell(f"first: {one}, second: {other}", "plain")


def first_difference(
    first: Sequence[Request], second: Sequence[Request]
) -> tuple[int, Request | None, Request | None] | None:
    """Return the place, from 1, of the first requests that differ in call, status or injected faults.

    One of the two is None if its episode ended before. None if no request differs.
    """
    for place, (one, other) in enumerate(zip_longest(first, second), start=1):
        if _sign(one) != _sign(other):
            return place, one, other
    return None


def _sign(request: Request | None) -> tuple[object, ...] | None:
    if request is None:
        return None
    return request.link_name, request.name, request.status, request.error, request.fault_kinds


def _text(request: Request | None) -> str:
    if request is None:
        return "none"
    faults = f" with {', '.join(sorted(request.fault_kinds))}" if request.fault_kinds else ""
    return f"{request.name} {request.error or request.status or 'no reply'}{faults}"


def _difference_chart(arms: Sequence[ArmComparison]) -> Iterator[Chart]:
    rows = []
    for place, arm in enumerate(arms):
        if arm.success is not None:
            sure = Figure(percent(arm.confidence), "arms", place, "confidence")
            more = Phrase(", ", sure, " interval")
            rows.append(
                points_row(_name(arm) or "all episodes", arm.success, ("arms", place, "success"), more)
            )
    if rows:
        title, says = "Success rate", "Change from the first to the second, with its interval."
        yield Chart(title, says, intervals(rows, title, "percentage points", zero=True))


def _tables(arm: ArmComparison, place: int) -> Iterator[Table]:
    for title, key, pairs in (
        ("measures", "measures", arm.measures),
        ("assertions", "assertions", arm.assertions),
        ("conditions that differ", "differs", arm.differs),
    ):
        changes = _differences(arm) if key == "measures" else {}
        rows = [
            (
                name,
                *(Figure(side or "none", "arms", place, key, name, at) for at, side in enumerate(sides)),
                *([_difference_cell(changes, place, name)] if changes else []),
            )
            for name, sides in pairs.items()
        ]
        if rows:
            columns = ("", "first", "second", *(["difference"] if changes else []))
            title_text = f"{_name(arm)}: {title}" if _name(arm) else title.capitalize()
            yield Table(title_text, columns, rows, _MEASURES_NOTE if changes else "")


def _difference_cell(changes: Mapping[str, str], place: int, name: str) -> str:
    return Figure(changes[name], "figures", "differences", place, name) if name in changes else "–"
