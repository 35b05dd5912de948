"""The page of the memory: what the recorded runs taught about each component under each fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from wirefault.history.logs import strip_control
from wirefault.judging.findings.finding import span_in_words
from wirefault.memory.episodes import Episode
from wirefault.memory.knowledge import CONFIDENCE, Knowledge, Range, Share, known_components
from wirefault.memory.learnings import learnings
from wirefault.report.page.parts import Cell, Chart, Matrix, PageContent, Table, count_text
from wirefault.report.page.phrase import Phrase
from wirefault.report.page.svg import IntervalRow, intervals
from wirefault.stats.rates import percent

_MAX_RUNS = 5
"""Runs that a sentence links."""
_MAX_ROWS = 40
"""Rows of a chart."""
_TITLE = "Memory: what the recorded runs taught"


def memory_content(
    episodes: Sequence[Episode], not_remembered: Sequence[str], *, runs_at: str = ""
) -> PageContent:
    """Describe the memory. ``runs_at``: where the pages of runs are, such as ``/runs/``; empty: no links."""
    known = known_components(episodes)
    listed = [each for each in known if not each.component.startswith("tool ")]
    sources = {each.run_id: each.source for each in episodes}
    recordings = len(set(sources.values()))
    newer = [f"not remembered yet: {', '.join(not_remembered)}; run: wirefault memory rebuild"]
    return PageContent(
        id="memory",
        title=_TITLE,
        kind="memory",
        tone="open",
        verdict=f"{count_text(len({each.component for each in known}), 'component')} under faults",
        sentence=_sentence(len(episodes), recordings, known),
        facts=[
            (
                "success",
                "in the episodes in which the fault was delivered, and in those without",
            ),
            ("intervals", f"{percent(CONFIDENCE)}, exact"),
            ("effect", "paired: the same prompt with this fault alone and without any"),
        ],
        commands=[
            ("build it again", "wirefault memory rebuild"),
            ("one component", "wirefault memory show COMPONENT"),
        ],
        findings=[],
        matrix=_matrix(listed),
        charts=[*_success_chart(listed), *_effect_chart(listed)],
        tables=[
            *_known_table(known),
            *_range_table(known),
            *_learning_table(known, sources, runs_at),
        ],
        episodes=[],
        provenance=[("recordings", ", ".join(sorted(set(sources.values()))) or "none")],
        remarks=newer if not_remembered else [],
    )


def _sentence(episodes: int, recordings: int, known: Sequence[Knowledge]) -> str:
    start = f"{count_text(episodes, 'episode')} of {count_text(recordings, 'recording')}."
    if not known:
        return f"{start} No fault was delivered in them, so they taught nothing yet."
    harmed = [each for each in known if each.effect is not None and each.effect.high < 0]
    if not harmed:
        return f"{start} No fault is listed to lower success."
    worst = min(harmed, key=lambda each: each.effect.value if each.effect else 0.0)
    return f"{start} The largest effect: {worst.component}: {learnings(worst)[0].text}."


def _matrix(known: Sequence[Knowledge]) -> Matrix | None:
    """Success with each fault, by component."""
    faults = sorted({each.fault for each in known})
    by_pair = {(each.component, each.fault): each for each in known}
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    for component in dict.fromkeys(each.component for each in known):
        cells = [_cell(by_pair.get((component, fault))) for fault in faults]
        rows.append((component, cells))
    return Matrix("Success with each fault", "component", faults, rows) if rows else None


def _cell(known: Knowledge | None) -> Cell | None:
    if known is None:
        return None
    share = known.with_fault
    if share.value is None:
        return Cell("no outcome", "unknown")
    effect = known.effect
    lowered, raised = effect is not None and effect.high < 0, effect is not None and effect.low > 0
    return Cell(f"{share.k} of {share.n}", "harmful" if lowered else "fine" if raised else "plain")


def _success_chart(known: Sequence[Knowledge]) -> Iterator[Chart]:
    rows = []
    for each in known[:_MAX_ROWS]:
        for word, share, kind in (("with", each.with_fault, "fault"), ("without", each.without, "")):
            if share.value is None or share.interval is None:
                continue
            low, high = (100 * end for end in share.interval)
            name = f"{each.component}, {word} {each.fault}"
            rows.append(IntervalRow(name, low, high, 100 * share.value, _share_text(share), kind))
    if rows:
        title = "Success with and without each fault"
        says = f"Share of successful episodes with its {percent(CONFIDENCE)} interval."
        yield Chart(title, says, intervals(rows, title, "%"))


def _effect_chart(known: Sequence[Knowledge]) -> Iterator[Chart]:
    rows = []
    for each in known:
        if (effect := each.effect) is not None:
            low, high, value = (100 * end for end in (effect.low, effect.high, effect.value))
            note = f"{value:+.3g} points, {count_text(effect.n, 'pair')}"
            name = f"{each.component}, {each.fault}"
            rows.append(IntervalRow(name, low, high, value, note, "worse" if high < 0 else ""))
    if rows:
        title = "Effect of each fault"
        says = (
            "Change of the success rate from the same prompt without faults to it with this fault alone, with"
            f" its {percent(CONFIDENCE)} interval. A line that reaches 0 leaves open whether there is one."
        )
        drawn = sorted(rows, key=lambda row: row.value or 0.0)[:_MAX_ROWS]
        yield Chart(title, says, intervals(drawn, title, "percentage points", zero=True))


def _known_table(known: Sequence[Knowledge]) -> Iterator[Table]:
    rows = [
        (
            each.component,
            each.fault,
            str(each.episodes),
            ", ".join(f"{count} {name}" for name, count in sorted(each.results.items())),
            _share_text(each.with_fault),
            _share_text(each.without),
            _recovery_text(each),
        )
        for each in known
    ]
    if rows:
        columns = ("component", "fault", "episodes", "results", "success with it", "without", "recovery")
        yield Table("Components and faults", columns, rows)


def _share_text(share: Share) -> str:
    if share.value is None or share.interval is None:
        return "no data"
    low, high = share.interval
    return f"{percent(share.value)}, {share.k} of {share.n} ({100 * low:.3g} to {100 * high:.3g} %)"


def _recovery_text(known: Knowledge) -> str:
    recovery = known.recovery
    if recovery.seconds is None:
        return "no outage"
    return f"{'at least ' if recovery.at_least else ''}{span_in_words(recovery.seconds)}"


def _range_table(known: Sequence[Knowledge]) -> Iterator[Table]:
    rows = [
        (each.component, each.fault, dose.name, _range_text(dose.survived), _range_text(dose.failed))
        for each in known
        for dose in each.ranges
    ]
    if rows:
        columns = ("component", "fault", "parameter", "survived", "did not survive")
        note = "the smallest and the largest value in episodes that succeeded, and in those that did not"
        yield Table("Safe ranges", columns, rows, note)


def _range_text(dose: Range | None) -> str:
    if dose is None:
        return "no episode"
    values = f"{dose.low:g}" if dose.low == dose.high else f"{dose.low:g} to {dose.high:g}"
    return f"{values}, in {count_text(dose.n, 'episode')}"


def _learning_table(known: Sequence[Knowledge], sources: Mapping[str, str], runs_at: str) -> Iterator[Table]:
    rows = [
        (f"{each.component}, {each.fault}", learning.text, _evidence(learning.runs, sources, runs_at))
        for each in known
        for learning in learnings(each)
    ]
    if rows:
        yield Table("Learnings", ("component and fault", "learning", "evidence"), rows)


def _evidence(runs: Sequence[str], sources: Mapping[str, str], runs_at: str) -> str:
    """Name the recordings of the runs; link them if there are pages to link."""
    names = list(dict.fromkeys(sources.get(run, run) for run in runs))
    listed = [strip_control(name) for name in names[:_MAX_RUNS]]
    more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    if not runs_at:
        return Phrase(", ".join(listed), more)
    links = (Markup('<a href="{}{}">{}</a>').format(runs_at, name, name) for name in listed)
    return Markup("{}{}").format(Markup(", ").join(links), more)
