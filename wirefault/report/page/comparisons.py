"""The page of two recordings side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from wirefault.experiments.compare import ArmComparison, Change, Comparison
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.judging.requests import Request
from wirefault.report.comparison import comparison_sentences
from wirefault.report.page.charts import points_row
from wirefault.report.page.episode import RecordedEpisode, event_anchor
from wirefault.report.page.parts import (
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
_Sides = tuple[Mapping[str, RecordedEpisode], Mapping[str, RecordedEpisode]]


def comparison_content(first: Recording, second: Recording, comparison: Comparison) -> PageContent:
    """Show two recordings: what differs, and each episode whose outcome changed, on both sides."""
    episodes = Episodes(next(iter(first.arms.values())).logs, first.id)
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    for arm in comparison.arms:
        sides = tuple(judged_episodes(_arm_of(side, arm.arm))[0] for side in (first, second))
        rows += _changed_rows(episodes, arm, (sides[0], sides[1]), (first.id, second.id))
    changed = sum(len(arm.changed) for arm in comparison.arms)
    lines = [
        Phrase(f"{arm.arm}: ", Figure(line, "arms", place))
        for place, arm in enumerate(comparison.arms)
        for line in comparison_sentences(arm)
    ]
    count = Figure(count_text(changed, "episode"), "figures", "changed")
    return PageContent(
        id=f"{first.id} and {second.id}",
        title="Two recordings compared",
        kind="comparison",
        tone=_TONES[comparison.change],
        verdict={"unknown": "perhaps worse"}.get(comparison.change, comparison.change),
        sentence=capitalised(Phrase(count, " of the second had another outcome than in the first.")),
        facts=[
            ("first", Figure(first.id, "first")),
            ("second", Figure(second.id, "second")),
            *(("", line) for line in lines),
        ],
        commands=[("repeat it", f"wirefault compare {first.id} {second.id}")],
        findings=[],
        matrix=Matrix("Episodes whose outcome changed", "episode", ("first", "second", "diverged at"), rows)
        if rows
        else None,
        charts=list(_difference_chart(comparison.arms)),
        tables=[table for place, arm in enumerate(comparison.arms) for table in _tables(arm, place)],
        episodes=episodes.cards,
        provenance=[
            ("evidence of the first", first.evidence.text),
            ("evidence of the second", second.evidence.text),
        ],
        remarks=[f"{name} is in one of them only, and was not compared." for name in comparison.unmatched],
        figures={"changed": changed, "episodes": episodes.rows},
    )


def _arm_of(recording: Recording, name: str) -> RecordedArm:
    return recording.arms.get(name) or recording.arm(None)


def _changed_rows(
    episodes: Episodes, arm: ArmComparison, sides: _Sides, ids: tuple[str, str]
) -> Iterator[tuple[str, Sequence[Cell | None]]]:
    """Add both sides of each changed episode; yield its row, with the first request that differs."""
    prefix = "" if arm.arm in (PLAIN_RUN, "run") else f"{arm.arm}, "
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
        yield f"{prefix}{change.episode}: {change.prompt[:_MAX_PROMPT]}", [*cells, _divergence(placed)]


def _divergence(placed: Sequence[Placed]) -> Cell:
    """Name the first request that differs, with a link to the second's, or to the first's if it has none."""
    difference = first_difference(*(each.trace.requests for each in placed))
    if difference is None:
        return Cell("no request differs", "plain")
    place, one, other = difference
    card, request = (placed[1].card, other) if other else (placed[0].card, one)
    anchor = event_anchor(card.number, request.ids[0]) if request and request.ids else card.anchor
    return Cell(f"request {place}: {_text(one)}, then {_text(other)}", "plain", f"#{anchor}")


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
            rows.append(points_row(arm.arm, arm.success, ("arms", place, "success"), more))
    if rows:
        title, says = "Success rate", "Change from the first to the second, with its interval."
        yield Chart(title, says, intervals(rows, title, "percentage points", zero=True))


def _tables(arm: ArmComparison, place: int) -> Iterator[Table]:
    for title, key, pairs in (
        ("measures", "measures", arm.measures),
        ("assertions", "assertions", arm.assertions),
        ("conditions that differ", "differs", arm.differs),
    ):
        rows = [
            (name, *(Figure(side or "none", "arms", place, key, name, at) for at, side in enumerate(sides)))
            for name, sides in pairs.items()
        ]
        if rows:
            yield Table(f"{arm.arm}: {title}", ("", "first", "second"), rows)
