"""The short form of a page as Markdown: verdict, checks, findings, a chart, how to repeat it.

For the summary of a pipeline's step and for comments, so every text is inert there: no HTML, no links, no
mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from wirefault.experiments.recorded import Recording
from wirefault.history.logs import strip_control
from wirefault.judging.summary import Summary
from wirefault.report.page.parts import FindingCard, Matrix, PageContent, Table
from wirefault.report.page_links import PAGE
from wirefault.stats.rates import percent

_SPECIAL = re.compile(r"([\\`*_\[\]#|~>$]|^[-+])")
_NUMBERED = re.compile(r"^(\d+)([.)])(?= |$)")  # begins a list
_INERT = "\u2060"
"""Word joiner: invisible, and no mention, address or reference of an issue contains it."""
_BAR = 20
_MAX_TEXT, _MAX_FINDINGS, _MAX_ROWS = 300, 20, 40


def markdown(content: PageContent, recording: Recording) -> str:
    """Return the document. Raises ``InputError`` if a history cannot be read."""
    chart = _outcome_chart({name: arm.summary for name, arm in recording.arms.items()})
    return _document(content, [*chart, *_findings(content.findings)])


def tournament_markdown(content: PageContent) -> str:
    """Return the document of a tournament: its tables of arms and pairs in place of outcomes."""
    return _document(content, [block for table in content.tables for block in _arms_table(table)])


def _document(content: PageContent, results: Sequence[str]) -> str:
    blocks = [
        f"## Wirefault: {escaped(content.verdict)}",
        f"**{escaped(content.title)}**",
        escaped(content.sentence, limit=1000),
        *results,
        *([_matrix(content.matrix)] if content.matrix else []),
        _table(("", ""), [(escaped(name), escaped(value)) for name, value in content.facts]),
        "### Repeat it",
        _code("\n".join(command for _, command in content.commands), "sh"),
        *(f"- {escaped(remark)}" for remark in content.remarks),
    ]
    return "\n\n".join(blocks) + "\n"


def _arms_table(table: Table) -> Iterator[str]:
    """A figure in each row and an arm in each column, since arms are few and figures many."""
    yield f"### {escaped(table.title)}"
    rows = [[escaped(cell) for cell in row] for row in (table.columns, *table.rows)]
    head, *rest = zip(*rows, strict=True) if len(table.columns) > 2 else rows
    yield _table(head, rest)


def failure_markdown(title: str, why: str) -> str:
    """Return the document of an experiment that has nothing to show."""
    return f"## Wirefault: no verdict\n\n**{escaped(title)}**\n\n{escaped(why, limit=1000)}\n"


def escaped(text: str, *, limit: int = _MAX_TEXT) -> str:
    """Return one line of Markdown that shows this text and does nothing else."""
    line = " ".join(strip_control(text).split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    line = line.replace("&", "&amp;").replace("<", "&lt;")
    line = _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", line))
    line = re.sub(r"([@#])(?=\w)", rf"\1{_INERT}", line)
    return re.sub(r"(?i)(https?|ftp|mailto|www|GH)(?=[:.-])", rf"\1{_INERT}", line)


def _outcome_chart(summaries: Mapping[str, Summary]) -> Iterator[str]:
    """Bars of characters, since comments show no pictures of their own."""
    width = max(map(len, summaries), default=0)
    lines = []
    for name, summary in summaries.items():
        rate = summary.success
        if rate.rate is None or rate.low is None or rate.high is None:
            continue  # no episode has an outcome, as the remarks say
        full = round(_BAR * rate.rate)
        bar = "█" * full + "░" * (_BAR - full)
        share = f"{percent(rate.rate)} ({rate.k} of {rate.n})"
        interval = f"{percent(rate.low)} to {percent(rate.high)}"
        unjudged = ""
        if rate.n < rate.planned and rate.worst is not None and rate.best is not None:
            bounds = f"{percent(rate.worst)} and {percent(rate.best)}"
            unjudged = f"; of all {rate.planned} planned between {bounds}"
        lines.append(f"{name:{width}}  {bar}  {share}, 95 % interval {interval}{unjudged}")
    if lines:
        yield "### Success"
        yield _code("\n".join(line.strip() for line in lines))


def _findings(cards: Sequence[FindingCard]) -> Iterator[str]:
    if not cards:
        return
    grave = sum(card.severity != "note" or bool(card.label) for card in cards)
    yield f"### Findings ({grave})" if grave else "### Notes"
    rows = [
        (escaped(card.word), escaped(card.title), escaped(card.seen), escaped(card.helps))
        for card in cards[:_MAX_FINDINGS]
    ]
    yield _table(("", "what happened", "seen", "what helps"), rows)
    for snippet in dict.fromkeys(card.snippet for card in cards[:_MAX_FINDINGS] if card.snippet):
        yield _code(snippet)
    if len(cards) > _MAX_FINDINGS:
        yield f"and {len(cards) - _MAX_FINDINGS} more on the page"
    if places := [f"{card.word:8}  {PAGE}{card.href}" for card in cards[:_MAX_FINDINGS] if card.href]:
        yield "Where the page shows them, in the same order:"
        yield _code("\n".join(places))
    if command := next((card.command for card in cards if card.command), ""):
        yield _code(command, "sh")


def _matrix(matrix: Matrix) -> str:
    rows = [
        (escaped(name), *(escaped(cell.word) if cell else "" for cell in cells))
        for name, cells in matrix.rows[:_MAX_ROWS]
    ]
    columns = (escaped(matrix.corner), *(escaped(column) for column in matrix.columns))
    return f"### {escaped(matrix.title)}\n\n{_table(columns, rows)}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any in the text."""
    clean = "\n".join(strip_control(line) for line in text.splitlines())
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", clean)), default=0))
    return f"{fence}{language}\n{clean}\n{fence}"
