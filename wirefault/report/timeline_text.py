"""The timeline of an episode for people: a line each, in columns that fit a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from wirefault.history.gateway_events import GUIDING_HEADERS
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.console import STYLES
from wirefault.report.tables import one_line
from wirefault.report.terminal import line_width
from wirefault.report.timeline import LineKind, TimelineLine, timeline_lines

_TIME, _LABEL, _INDENT = 9, 10, 3
_STYLES: Mapping[LineKind, str] = {
    "attempt": "bold",
    "user": "bold",
    "toxic": "yellow",
    "armed": "yellow",
    "shadow": "dim",
    "call": "bold",
    "fault": "yellow",
    "upstream": "dim",
    "result": "cyan",
    "past lab": "red",
    "killed": "red",
    "effect": "magenta",
    "refused": "red",
    "error": "red",
    "reply": "bold",
    "answer": "bold",
}
# characters shown of two texts before they differ
_BEFORE = 24


def print_timeline(console: Console, episode: JudgedEpisode, *, full: bool = False) -> None:
    """Print the episode's verdict, lines and findings. ``full``: texts are not cut at the line's end."""
    judged, lines = episode.judged, timeline_lines(episode)
    head = Text(f"{judged.outcome}", style=STYLES[OUTCOMES[judged.outcome].tone])
    head.append(f"  episode {judged.episode} of {one_line(episode.run_id)}", style="not bold default")
    console.print(head, soft_wrap=True)
    console.print(Text(one_line(judged.prompt), style="bold"))
    console.print()
    width = line_width(console)
    for line, text in zip(lines, _texts(lines, full=full), strict=True):
        console.print(_row(line, text, None if full else width), soft_wrap=full)
    console.print()
    because = f" ({one_line(judged.why)})" if judged.why else ""
    axes = f"world {judged.world}, claim {judged.claim}, value {judged.value}"
    flags = f", {', '.join(judged.flags)}" if judged.flags else ""
    console.print(Text(f"{judged.outcome}: {axes}{flags}{because}"))
    for finding in episode.findings:
        console.print(Text(f"{finding.severity}: {one_line(finding.text)} [{', '.join(finding.evidence)}]"))


def _row(line: TimelineLine, text: str, width: int | None) -> Text:
    """Return time, label and text, and at the end of the line status and duration."""
    time = "" if line.at is None else f"{line.at:.3f}"
    left = f"{time:>{_TIME - 2}}  " + " " * (_INDENT * line.depth) + f"{line.label or line.kind:<{_LABEL}}"
    figures = "" if line.ms is None else f"  {line.seen}  {line.ms:>6.0f} ms"
    if width is not None:
        text = _clip(text, width - len(left) - len(figures))
        figures = " " * (width - len(left) - cell_len(text) - len(figures)) + figures if figures else ""
    row = Text(left, style="dim", no_wrap=True)
    row.append(text, style=f"not dim {_STYLES.get(line.kind, '')}")
    failed = line.ms is not None and not line.seen.startswith("2")
    return row.append(figures, style="not dim red" if failed else "not dim")


def _texts(lines: Sequence[TimelineLine], *, full: bool) -> Iterator[str]:
    """Return the lines' texts; two sides of a reply that begin alike start shortly before they differ."""
    skipped = 0
    for line, after in pairwise([*lines, None]):
        assert line is not None
        if line.kind == "upstream" and after is not None and after.kind == "observed" and not full:
            skipped = max(_alike(_bare(line.text), _bare(after.text)) - _BEFORE, 0)
        elif line.kind != "observed":
            skipped = 0
        text = _bare(line.text) if line.kind in ("upstream", "observed") and not full else one_line(line.text)
        text = f"...{text[skipped:]}" if skipped else text
        status = line.seen if line.ms is None else ""
        headers = [each for each in line.headers if full or each.partition(":")[0] in GUIDING_HEADERS]
        yield "  ".join(filter(None, (status, *map(one_line, headers), text)))


def _bare(text: str) -> str:
    """Return JSON without optional blanks, so that two sides differ only in their values."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return one_line(text)


def _alike(one: str, other: str) -> int:
    """Return how many characters both begin with; 0 for equal texts, which differ nowhere."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), 0)


def _clip(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(room - 3, 0)) + "..."
