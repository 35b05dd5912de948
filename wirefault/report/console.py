"""One console line per prompt when it is judged. Readable without colour, at 100 columns.

Texts of prompts, models and tools pass through ``strip_control`` into ``rich.text.Text``, without markup.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from wirefault.history.events import EpisodeJudged
from wirefault.history.judged_events import FaultRecord, Outcome
from wirefault.history.logs import strip_control
from wirefault.judging.oracle.outcome import OUTCOMES, Tone
from wirefault.report.tables import one_line
from wirefault.report.terminal import line_width
from wirefault.toxiproxy.toxics import TOXICS

_WIDTH = 100
_MIN_PROMPT = 26

STYLES: Mapping[Tone, str] = {
    "good": "green",
    "failed": "yellow",
    "harmful": "bold red",
    "ended": "red",
    "unknown": "dim",
    "lab": "bold magenta",
}


def episode_line(judgement: EpisodeJudged, index: int, total: int, width: int = _WIDTH) -> Text:
    """Return number, outcome, prompt, faults met and problems, in at most ``width`` columns.

    All faults met and the whole reason are shown: the line wraps.
    """
    number = f"{index:>{len(str(total))}}/{total}  "
    room = width - len(number) - 16
    column = max(_MIN_PROMPT, room * 9 // 20)
    line = Text(number, style="dim", no_wrap=True, overflow="ellipsis", end="\n")
    line.append(f"{judgement.outcome:<16}", style="not dim " + _style(judgement.outcome))
    details = room - column - 2
    rows = _rows(_details(judgement), details)
    prompt = one_line(judgement.prompt)
    line.append(
        set_cell_size(_clip(prompt, column), column) if rows else _clip(prompt, room), style="not dim"
    )
    below = "\n" + " " * (width - room + column + 2)
    line.append("  " + below.join(rows) if rows else "", style="not dim")
    return line


def _style(outcome: Outcome) -> str:
    return STYLES[OUTCOMES[outcome].tone]


def _details(judgement: EpisodeJudged) -> list[str]:
    """Return the faults met, the reason of a failure, attempts and flags."""
    parts = _delivered(judgement.faults)
    parts += [one_line(judgement.why)] if judgement.why and judgement.outcome != "success" else []
    if judgement.outcome == "unjudged" and judgement.claim in ("done", "failed"):
        parts.append(f"claims {judgement.claim}")
    parts += [f"{judgement.attempts} attempts"] if judgement.attempts > 1 else []
    parts += judgement.flags
    return parts + ([f"{len(judgement.unexplained)} unexplained"] if judgement.unexplained else [])


def _delivered(faults: Iterable[FaultRecord]) -> list[str]:
    """Return by link the injected faults, and the toxics that were met, observed or not."""
    by_link: dict[str, Counter[str]] = {}
    for fault in faults:
        if fault.delivered is None or fault.reached("met" if fault.source == "toxic" else "injected"):
            by_link.setdefault(fault.link, Counter())[_fault(fault)] += 1
    return [
        f"{link} " + ", ".join(_unbroken(name, count) for name, count in counts.items())
        for link, counts in by_link.items()
    ]


_NO_BREAK = "\N{NO-BREAK SPACE}"


def _unbroken(what: str, count: int) -> str:
    return (f"{what} x{count}" if count > 1 else what).replace(" ", _NO_BREAK)


_SHORT = {"upstream": "up", "downstream": "down"}
_WITHOUT_STREAM = frozenset(toxic.kind for toxic in TOXICS if not toxic.has_stream)


def _fault(fault: FaultRecord) -> str:
    if fault.source == "error":
        what = str(fault.attributes.get("status", fault.kind))
    elif fault.source == "toxic":
        stream = "" if fault.kind in _WITHOUT_STREAM else _SHORT.get(fault.stream or "", fault.stream)
        parts = (fault.kind, fault.attributes.get(fault.kind), stream)
        what = " ".join(str(part) for part in parts if part)
    else:
        what = fault.kind
    seen = {True: "", False: " (not observed)", None: " (unknown whether delivered)"}
    return one_line(what + seen[fault.delivered])


def _rows(parts: Sequence[str], room: int) -> list[str]:
    """Return all parts in rows of at most ``room`` columns; longer ones wrap."""
    ended = [f"{part};" for part in parts[:-1]] + list(parts[-1:])
    wrapper = textwrap.TextWrapper(room, subsequent_indent="  ", break_on_hyphens=False)
    pieces = [piece.replace(_NO_BREAK, " ") for part in ended for piece in wrapper.wrap(part)]
    rows: list[str] = []
    for piece in (_clip(piece, room) for piece in pieces):
        if rows and not piece.startswith(" ") and cell_len(rows[-1]) + 1 + cell_len(piece) <= room:
            rows[-1] += f" {piece}"
        else:
            rows.append(piece)
    return rows


def _clip(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 3, 0)).rstrip() + "..."


class ConsoleAudience:
    """Prints a line per judged prompt; on a terminal the current prompt is below them.

    ``alone``: no other process writes to this terminal, which would break that line. ``whole``: the keys of
    all prompts, if the run has only some of them: lines are numbered among these.
    """

    def __init__(self, console: Console, *, alone: bool = True, whole: Sequence[str] = ()) -> None:
        self._console = console
        self._places = {key: place for place, key in enumerate(whole, start=1)}
        self._live = Live(Text(), console=console, transient=True, auto_refresh=False)
        if console.is_terminal and alone:
            self._live.start()

    def say(self, message: str) -> None:
        self._console.print(Text(strip_control(message)))

    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None:
        if self._live.is_started:
            again = f" (attempt {attempt})" if attempt > 1 else ""
            line = Text(f"{index:>3}/{total} {strip_control(prompt)}{again} ...", style="dim", no_wrap=True)
            line.truncate(self._console.width, overflow="ellipsis")
            self._live.update(line, refresh=True)

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudged) -> None:
        index, total = self._places.get(judgement.episode, index), len(self._places) or total
        self._console.print(episode_line(judgement, index, total, line_width(self._console)))

    def close(self) -> None:
        self._live.update(Text(), refresh=self._live.is_started)
        self._live.stop()
