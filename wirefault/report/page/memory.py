"""The page of the memory: what the recorded runs taught about each component under each fault, and what to
test next. Each figure is one of ``wirefault memory show --json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from wirefault.experiments.search.chain import Chain
from wirefault.judging.findings.finding import span_in_words
from wirefault.memory.document import MemoryDocument, recordings_of
from wirefault.memory.knowledge import CONFIDENCE, Knowledge, Range
from wirefault.memory.learnings import learnings
from wirefault.report.page.parts import Cell, Chart, Matrix, PageContent, Table, count_text
from wirefault.report.page.phrase import Figure, Phrase, joined, marked_up
from wirefault.report.page.searches import chain_table
from wirefault.report.page.svg import IntervalRow, intervals
from wirefault.report.search import risk_text
from wirefault.stats.rates import Share, percent

_MAX_RUNS = 5
"""Runs that a sentence links."""
_MAX_ROWS = 24
"""Rows of a chart, and of a table that is open at first."""
_TITLE = "Memory: what the recorded runs taught"
_Placed = Sequence[tuple[int, Knowledge]]
"""Knowledge with its place in ``--json``."""


def memory_content(document: MemoryDocument, *, runs_at: str = "") -> PageContent:
    """Describe the memory. ``runs_at``: where the pages of runs are, such as ``/runs/``; empty: no links."""
    figures = document.as_json()
    known = list(enumerate(document.known))
    listed = [(at, each) for at, each in known if not each.component.startswith("tool ")]
    newer = Phrase(
        "not remembered yet: ",
        Figure(", ".join(document.not_remembered), "not_remembered"),
        "; run: wirefault memory rebuild",
    )
    sure = _confidence()
    components = figures["counts"]["components"]
    return PageContent(
        id="memory",
        title=_TITLE,
        kind="memory",
        tone="open",
        verdict=Phrase(Figure(count_text(components, "component"), "counts", "components"), " under faults"),
        sentence=_sentence(document),
        facts=[
            (
                "success",
                "in the episodes in which the fault was delivered, and in those without",
            ),
            ("intervals", Phrase(sure, ", exact")),
            ("effect", "paired: the same prompt with this fault alone and without any"),
            ("to test next", _next_text(document)),
        ],
        commands=[
            ("run the next experiments", "wirefault search next --run"),
            ("build it again", "wirefault memory rebuild"),
            ("one component", "wirefault memory show COMPONENT"),
        ],
        findings=[],
        matrix=_matrix(known),
        charts=[*_success_chart(listed), *_effect_chart(listed)],
        leading=[*_next_table(document), *_chain_tables(document)],
        tables=[
            _folded_if_long(table)
            for table in (
                *_learning_table(known, document, runs_at),
                *_known_table(known),
                *_range_table(known),
            )
        ],
        episodes=[],
        provenance=[("recordings", ", ".join(sorted(set(document.sources.values()))) or "none")],
        remarks=[newer] if document.not_remembered else [],
        figures=figures,
    )


def _confidence() -> Figure:
    return Figure(percent(CONFIDENCE), "confidence")


def _sentence(document: MemoryDocument) -> Phrase:
    counts, known = document.as_json()["counts"], document.known
    start = [
        *(Figure(count_text(counts["episodes"], "episode"), "counts", "episodes"), " of "),
        *(Figure(count_text(counts["recordings"], "recording"), "counts", "recordings"), ". "),
    ]
    if not known:
        return Phrase(*start, "No fault was delivered in them, so they taught nothing yet.")
    harmed = [place for place, each in enumerate(known) if each.effect is not None and each.effect.high < 0]
    if not harmed:
        return Phrase(*start, "No fault is listed to lower success.")
    effects = {place: each.effect.value for place, each in enumerate(known) if each.effect is not None}
    worst = min(harmed, key=effects.__getitem__)
    at = ("components", worst)
    text = Figure(learnings(known[worst])[0].text, *at, "learnings", 0, "text")
    name = Figure(known[worst].component, *at, "component")
    return Phrase(*start, "The largest effect: ", name, ": ", text, ".")


def _next_text(document: MemoryDocument) -> str:
    if not document.proposals:
        return "nothing that the recorded calls leave open"
    best, at = document.proposals[0], ("next", 0)
    return Phrase(
        *(Figure(best.cell.text, *at, "text"), ", because of the "),
        *(Figure(best.reason, *at, "reason"), ": ", Figure(best.because, *at, "because")),
    )


def _next_table(document: MemoryDocument) -> Iterator[Table]:
    """Yield the proposals of the planner, the best first."""
    rows = [
        (
            Figure(each.cell.text, *at, "text"),
            Figure(each.cell.link, *at, "link"),
            Phrase(Figure(each.reason, *at, "reason"), ": ", Figure(each.because, *at, "because")),
            Figure(risk_text(each.risk), *at, "risk"),
            Figure(each.risk.evidence, *at, "risk", "evidence"),
        )
        for place, each in enumerate(document.proposals)
        for at in [("next", place)]
    ]
    if rows:
        heads = ("what would happen", "link", "why this one", "risk of harm", "evidence of the risk")
        note = (
            "For the prompts of the latest recording without faults; regressions first, then questions not"
            " asked yet, edges of safe ranges, the widest intervals, untested pairs"
        )
        yield Table("What to test next", heads, rows, note)


def _folded_if_long(table: Table) -> Table:
    if len(table.rows) <= _MAX_ROWS:
        return table
    return replace(table, folded=True, fold_note="all rows")


def _chain_tables(document: MemoryDocument) -> Iterator[Table]:
    """Yield for each recorded search its steps: why each was the next one, and what it showed."""
    for place, (name, chain) in reversed(list(enumerate(document.chains.items()))):
        at = ("chains", place)
        yield from chain_table(
            chain, at, Phrase("The chain of ", Figure(name, *at, "search")), _chain_note(chain, at)
        )


def _chain_note(chain: Chain, at: tuple[str, int]) -> Phrase:
    """Say what the chain showed, and why it ended."""
    weaknesses: list[str] = [
        Phrase(
            *(Figure(each.text, *at, "weaknesses", place, "text"), ", first in the step "),
            Figure(each.steps[0], *at, "weaknesses", place, "steps"),
        )
        for place, each in enumerate(chain.weaknesses)
    ]
    showed = joined("; ", weaknesses) if weaknesses else Phrase("no weakness")
    ended = f"It ended: {chain.state}" if chain.state != "open" else "It is open"
    return Phrase("It showed: ", showed, ". ", ended)


def _matrix(known: _Placed) -> Matrix | None:
    """Success with each fault, by component."""
    faults = sorted({each.fault for _, each in known})
    by_pair = {(each.component, each.fault): (at, each) for at, each in known}
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    for component in dict.fromkeys(each.component for _, each in known):
        cells = [_cell(by_pair.get((component, fault))) for fault in faults]
        rows.append((component, cells))
    return Matrix("Success with each fault", "component", faults, rows) if rows else None


def _cell(placed: tuple[int, Knowledge] | None) -> Cell | None:
    if placed is None:
        return None
    at, known = placed
    share = known.with_fault
    if share.rate is None:
        return Cell("no outcome", "unknown")
    effect = known.effect
    lowered, raised = effect is not None and effect.high < 0, effect is not None and effect.low > 0
    path = ("components", at, "with_fault")
    word = Phrase(Figure(share.k, *path, "k"), " of ", Figure(share.n, *path, "n"))
    return Cell(word, "harmful" if lowered else "fine" if raised else "plain")


def _success_chart(known: _Placed) -> Iterator[Chart]:
    rows = []
    for at, each in known[:_MAX_ROWS]:
        for word, key, share, kind in (
            ("with", "with_fault", each.with_fault, "fault"),
            ("without", "without", each.without, ""),
        ):
            ends = share.interval(CONFIDENCE)
            if share.rate is None or ends is None:
                continue
            low, high = (100 * end for end in ends)
            name = f"{each.component}, {word} {each.fault}"
            rows.append(IntervalRow(name, low, high, 100 * share.rate, _share_text(share, at, key), kind))
    if rows:
        title = "Success with and without each fault"
        says = f"Share of successful episodes with its {percent(CONFIDENCE)} interval."
        yield Chart(title, says, intervals(rows, title, "%"))


def _effect_chart(known: _Placed) -> Iterator[Chart]:
    rows = []
    for at, each in known:
        if (effect := each.effect) is not None:
            low, high, value = (100 * end for end in (effect.low, effect.high, effect.value))
            path = ("components", at, "effect")
            points = Figure(f"{value:+.3g} points", *path, "value")
            note = Phrase(points, ", ", Figure(count_text(effect.n, "pair"), *path, "n"))
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


def _known_table(known: _Placed) -> Iterator[Table]:
    rows = [
        (
            each.component,
            each.fault,
            Figure(each.episodes, "components", at, "episodes"),
            joined(
                ", ",
                [
                    Phrase(Figure(count, "components", at, "results", name), f" {name}")
                    for name, count in sorted(each.results.items())
                ],
            ),
            _share_text(each.with_fault, at, "with_fault"),
            _share_text(each.without, at, "without"),
            _recovery_text(each, at),
        )
        for at, each in known
    ]
    if rows:
        columns = ("component", "fault", "episodes", "results", "success with it", "without", "recovery")
        yield Table("Components and faults", columns, rows)


def _share_text(share: Share, at: int, key: str) -> str:
    ends = share.interval(CONFIDENCE)
    if share.rate is None or ends is None:
        return "no data"
    path = ("components", at, key)
    low, high = (
        Figure(f"{100 * end:.3g}{unit}", *path, "interval", place)
        for place, (end, unit) in enumerate(zip(ends, ("", " %"), strict=True))
    )
    rate = Figure(percent(share.rate), *path, "value")
    return Phrase(
        *(rate, ", ", Figure(share.k, *path, "k"), " of ", Figure(share.n, *path, "n")),
        *(" (", low, " to ", high, ")"),
    )


def _recovery_text(known: Knowledge, at: int) -> str:
    recovery = known.recovery
    if recovery.seconds is None:
        return "no outage"
    span = Figure(span_in_words(recovery.seconds), "components", at, "recovery", "seconds")
    return Phrase("at least " if recovery.at_least else "", span)


def _range_table(known: _Placed) -> Iterator[Table]:
    rows = [
        (
            each.component,
            each.fault,
            dose.name,
            _range_text(dose.survived, (*path, "survived")),
            _range_text(dose.failed, (*path, "failed")),
        )
        for at, each in known
        for place, dose in enumerate(each.ranges)
        for path in [("components", at, "ranges", place)]
    ]
    if rows:
        columns = ("component", "fault", "parameter", "survived", "did not survive")
        note = "the smallest and the largest value in episodes that succeeded, and in those that did not"
        yield Table("Safe ranges", columns, rows, note)


def _range_text(dose: Range | None, path: tuple[str | int, ...]) -> str:
    if dose is None:
        return "no episode"
    values: list[str] = [Figure(f"{dose.low:g}", *path, "low")]
    values += [" to ", Figure(f"{dose.high:g}", *path, "high")] if dose.low != dose.high else []
    return Phrase(*values, ", in ", Figure(count_text(dose.n, "episode"), *path, "n"))


def _learning_table(known: _Placed, document: MemoryDocument, runs_at: str) -> Iterator[Table]:
    rows = [
        (
            f"{each.component}, {each.fault}",
            Figure(learning.text, *path, "text"),
            _evidence(recordings_of(learning.runs, document.sources), path, runs_at),
        )
        for at, each in known
        for place, learning in enumerate(learnings(each))
        for path in [("components", at, "learnings", place)]
    ]
    if rows:
        yield Table("Learnings", ("component and fault", "learning", "evidence"), rows)


def _evidence(names: Sequence[str], path: tuple[str | int, ...], runs_at: str) -> str:
    """Name the recordings; link them if there are pages to link."""
    figures = [Figure(name, *path, "recordings", place) for place, name in enumerate(names[:_MAX_RUNS])]
    count = Figure(count_text(len(names), "recording"), *path, "recordings")
    more = Phrase(" and others, ", count, " in all") if len(names) > len(figures) else ""
    if not runs_at:
        return Phrase(joined(", ", list(figures)), more)
    links = (
        Markup('<a href="{}{}">{}</a>').format(runs_at, str(figure), marked_up(figure)) for figure in figures
    )
    return Markup("{}{}").format(Markup(", ").join(links), marked_up(more))
