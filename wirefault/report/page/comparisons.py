"""The page of two recordings side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from wirefault.audit.result import findings_if_audit
from wirefault.experiments.compare import ArmComparison, Change, Comparison
from wirefault.experiments.estimates import prompt_of
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.judging.summary import Summary
from wirefault.report.comparison import comparison_sentences, verdict_of
from wirefault.report.next_command import command_on_run
from wirefault.report.page.charts import points_row, signed
from wirefault.report.page.comparison_cards import (
    NAMES,
    BothSides,
    Group,
    cost_figures,
    cost_table,
    cost_text,
    group_cards,
    group_figures,
    groups_in,
    injected_on_both,
    reaction_text,
    repeated_text,
    repeated_writes,
    worst_text,
)
from wirefault.report.page.episode import EpisodeCard, event_anchor
from wirefault.report.page.parts import (
    Cell,
    Chart,
    Episodes,
    Matrix,
    PageContent,
    Table,
    Tone,
    count_text,
    first_to_open,
    judged_episodes,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised, joined
from wirefault.report.page.svg import intervals
from wirefault.stats.rates import percent

_TONES: Mapping[Change, Tone] = {"worse": "bad", "not worse": "good", "unknown": "open"}
_MAX_EPISODES = 200
"""Changed episodes of an arm that are shown."""
_MAX_PROMPT = 80
_COLUMNS = ("first", "second", "diverged at", "faults by the lab", "who reacted", "cost")
_MEASURES_NOTE = (
    "difference: of the rounded figures; a toxic is one delivered fault and can fail several tries, and tries"
    " also fail without a fault, so tries that failed and faults_delivered differ"
)


def comparison_content(first: Recording, second: Recording, comparison: Comparison) -> PageContent:
    """Show two recordings: what differs, and each episode whose outcome changed, on both sides."""
    recordings = (first, second)
    episodes = Episodes(next(iter(first.arms.values())).logs, first.id)
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    summaries: list[tuple[Summary, Summary]] = []
    arms: list[BothSides] = []
    groups: list[Group] = []
    for arm in comparison.arms:
        (one, summary), (other, second_summary) = (_judged_episodes(r, arm.arm) for r in recordings)
        summaries.append((summary, second_summary))
        both = BothSides(episodes, (first.id, second.id), _name(arm), arm.arm, (one, other))
        arms.append(both)
        groups += groups_in(both)
        rows += _changed_rows(both, arm)
    groups.sort(key=lambda group: group.rank)
    cards = group_cards(groups)
    sides = [_side_figures([pair[side] for pair in summaries]) for side in (0, 1)]
    for at, repeated in enumerate(sides):
        repeated["repeated"] = repeated_writes(e for both in arms for e in both.sides[at].values())
    missing = [each for both in arms for each in _missing(both, recordings)]
    figures: dict[str, Any] = {
        "missing": missing,
        **_change_counts(comparison),
        "counts": list(map(_counts, arms)),
        "sides": sides,
        "findings": list(map(group_figures, groups)),
        "costs": cost_figures(arms),
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
        verdict=Phrase(verdict_of(comparison), *_headline(figures["counts"], comparison)),
        sentence=Phrase(_sentence(figures, is_judged=_is_judged(comparison)), *worst_text(groups)),
        facts=[
            ("first", Phrase(Figure(first.id, "first"), ": ", _side_text(sides[0], 0))),
            ("second", Phrase(Figure(second.id, "second"), ": ", _side_text(sides[1], 1))),
            *(("cost of the " + NAMES[side], cost_text(figures["costs"], side)) for side in (0, 1)),
            ("sent again", joined("; ", [_repeated_by_side(sides[side], side) for side in (0, 1)])),
            *((_label(line), line) for line in lines),
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
        findings=cards,
        matrix=Matrix("Episodes whose outcome changed", "episode", _COLUMNS, rows) if rows else None,
        charts=list(_difference_chart(comparison.arms)),
        tables=[cost_table(figures["costs"]), *tables],
        episodes=episodes.cards,
        provenance=[
            ("evidence of the first", first.evidence.text),
            ("evidence of the second", second.evidence.text),
        ],
        remarks=[
            *(f"{name} is in one of them only, and was not compared." for name in comparison.unmatched),
            *(_missing_text(each, place) for place, each in enumerate(missing)),
        ],
        figures=figures,
        opened=first_to_open(cards, [each for both in arms for each in both.on_page]),
    )


def _label(line: str) -> str:
    """Return the label of a sentence about both sides."""
    if "success" in line:
        return "success"
    return "changed" if "changed" in line else "without outcome" if "without" in line else "not in both"


def _repeated_by_side(side: Mapping[str, Any], place: int) -> Phrase:
    return Phrase(
        f"{NAMES[place]}: ", repeated_text(side["repeated"], ("figures", "sides", place, "repeated"))
    )


def _missing(both: BothSides, recordings: tuple[Recording, Recording]) -> Iterator[dict[str, Any]]:
    """Yield the episodes that only one side has, by the reason why the other has them not."""
    for side in (0, 1):
        others = both.sides[1 - side]
        planned = set(_arm_of(recordings[1 - side], both.arm).episodes)
        prompts = {prompt_of(key) for key in others}
        by_reason: dict[str, list[str]] = {}
        for key, episode in both.sides[side].items():
            if key not in others:
                why = "unfinished" if key in planned else "fewer" if prompt_of(key) in prompts else "prompt"
                by_reason.setdefault(why, []).append(f"{key} “{episode.judged.prompt[:_MAX_PROMPT]}”")
        for why, episodes in by_reason.items():
            yield {"arm": both.name, "only_in": NAMES[side], "why": why, "episodes": episodes}


_WHY_MISSING: Mapping[str, str] = {
    "unfinished": "the {other} planned them and did not finish them",
    "fewer": "the {other} repeats these prompts less often",
    "prompt": "the {other} has no prompt with this id; without an id, a prompt is known by its words",
}
_MAX_MISSING = 5


def _missing_text(missing: Mapping[str, Any], place: int) -> Phrase:
    at = ("figures", "missing", place, "episodes")
    episodes, side = missing["episodes"], missing["only_in"]
    other = NAMES[1 - NAMES.index(side)]
    listed = ", ".join(episodes[:_MAX_MISSING]) + (", ..." if len(episodes) > _MAX_MISSING else "")
    arm = f"{missing['arm']}, " if missing["arm"] else ""
    return Phrase(
        f"{arm}only in the {side}, and not compared: ",
        Figure(count_text(len(episodes), "episode"), *at),
        " (",
        Figure(listed, *at),
        f"): {_WHY_MISSING[missing['why']].format(other=other)}.",
    )


def _is_judged(comparison: Comparison) -> bool:
    return any(arm.has_success for arm in comparison.arms)


def _counts(both: BothSides) -> dict[str, Any]:
    """Count an arm's episodes on each side: judged ones, successes, and the ones with findings."""
    sides = []
    for episodes in both.sides:
        judged = [each.judged.outcome for each in episodes.values() if OUTCOMES[each.judged.outcome].in_rate]
        findings = [any(f.severity != "note" for f in each.findings) for each in episodes.values()]
        sides.append(
            {
                "episodes": len(episodes),
                "judged": len(judged),
                "succeeded": judged.count("success"),
                "with_findings": sum(findings),
            }
        )
    return {"arm": both.name, "sides": sides}


def _headline(counts: Sequence[Mapping[str, Any]], comparison: Comparison) -> Iterator[str]:
    """Yield the counts of both sides, of the arm in which they differ most: successes, then findings."""
    whats = [("succeeded", "judged", "succeeded")] if _is_judged(comparison) else []
    for what, of, title in (*whats, ("with_findings", "episodes", "episodes with findings")):
        changes = [abs(arm["sides"][0][what] - arm["sides"][1][what]) for arm in counts]
        if not changes or (what == "with_findings" and not any(changes)):
            continue
        place = changes.index(max(changes))
        arm = f"{counts[place]['arm']}, " if counts[place]["arm"] else ""
        first, second = (_count_of(counts[place]["sides"][side], what, of, (place, side)) for side in (0, 1))
        yield from (f"; {arm}{title}: ", first, " -> ", second)


def _count_of(side: Mapping[str, int], what: str, of: str, place: tuple[int, int]) -> Phrase:
    at = ("figures", "counts", place[0], "sides", place[1])
    return Phrase(Figure(side[what], *at, what), " of ", Figure(side[of], *at, of))


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


def _sentence(figures: Mapping[str, Any], *, is_judged: bool) -> Phrase:
    """Say how many got better and worse, and what else differs than the agent."""
    parts: list[str] = [
        *(
            Figure(count_text(figures["better"], "episode"), "figures", "better"),
            " of the second got better, ",
        ),
        *(Figure(figures["worse"], "figures", "worse"), " got worse"),
    ]
    if not is_judged:
        parts = ["No outcome is judged on both sides: compare the findings and the cost"]
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


_OPEN = re.compile(r"\d(?: %| s| USD)? to (?:\d|unknown)|^unknown|^no data")
"""A figure that is known between two bounds only, or not at all."""
_LEADING = re.compile(r"([-+]?\d+(?:\.\d+)?)( %| s| USD)?(?![\w.])")


def _differences(arm: ArmComparison) -> dict[str, str]:
    """Return the second's measures less the first's, of the rounded figures shown; without open ones."""
    texts = {}
    for name, sides in arm.measures.items():
        if any(_OPEN.search(side) for side in sides):
            continue
        one, other = (_LEADING.match(side) for side in sides)
        if one and other and one[2] == other[2]:
            unit = " points" if one[2] == " %" else one[2] or ""
            texts[name] = f"{signed(round(float(other[1]) - float(one[1]), 6))}{unit}"
    return texts


def _judged_episodes(recording: Recording, name: str) -> tuple[Mapping[str, JudgedEpisode], Summary]:
    episodes, summary = judged_episodes(_arm_of(recording, name))
    findings = findings_if_audit(recording.experiment)
    if findings is not None:
        episodes = {key: replace(each, findings=findings.get(key, ())) for key, each in episodes.items()}
    return episodes, summary


def _arm_of(recording: Recording, name: str) -> RecordedArm:
    return recording.arms.get(name) or recording.arm(None)


def _changed_rows(both: BothSides, arm: ArmComparison) -> Iterator[tuple[str, Sequence[Cell | None]]]:
    """Add both sides of each changed episode; yield its row, with the first request that differs."""
    for change in arm.changed[:_MAX_EPISODES]:
        if any(change.episode not in side for side in both.sides):
            continue
        placed = [both.placed(side, change.episode) for side in (0, 1)]
        cells = [Cell(each.word, "plain", f"#{each.anchor}") for each in placed]
        cells += [
            _divergence(placed),
            Cell(injected_on_both(placed), "plain"),
            Cell(_by_side(reaction_text, placed), "plain"),
            Cell(_by_side(_cost, placed), "plain"),
        ]
        yield f"{both.prefix}{change.episode}: {change.prompt[:_MAX_PROMPT]}", cells


def _by_side(text: Callable[[EpisodeCard], str], placed: Sequence[EpisodeCard]) -> Phrase:
    return Phrase("first: ", text(placed[0]), "; second: ", text(placed[1]))


def _cost(placed: EpisodeCard) -> Phrase:
    row = placed.row
    parts: list[str] = [placed.figure(count_text(row["calls"], "request"), "calls"), ", "]
    parts.append(placed.figure(f"{row['seconds']:.2f} s", "seconds"))
    if row["tokens"] is not None:
        parts += [", ", placed.figure(f"{row['tokens']} tokens", "tokens")]
    if row["usd"] is not None:
        parts += [", ", placed.figure(f"{row['usd']:.4g} USD", "usd")]
    return Phrase(*parts)


def _divergence(placed: Sequence[EpisodeCard]) -> Cell:
    """Name the first request that differs, with a link to the second's, or to the first's if it has none."""
    difference = first_difference(*(each.trace.requests for each in placed))
    if difference is None:
        return Cell("no request differs", "plain")
    place, one, other = difference
    card, request = (placed[1], other) if other else (placed[0], one)
    anchor = event_anchor(card.number, request.ids[0]) if request and request.ids else card.anchor
    placed[1].row["diverged"] = {"request": place, "first": _text(one), "second": _text(other)}
    number, *sides = (
        placed[1].figure(text, "diverged", key) for key, text in placed[1].row["diverged"].items()
    )
    return Cell(
        Phrase("request ", number, ": first: ", sides[0], ", second: ", sides[1]), "plain", f"#{anchor}"
    )


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
