"""What a person reads: a line per prompt, and the summary. Reads well without colour, at 100 columns.

All text that came from prompts, models or tools goes through ``strip_control`` and into ``rich.text.Text``,
which knows no markup.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wirefault.history.logs import strip_control
from wirefault.judging.evidence.record import FaultRecord
from wirefault.judging.judge import EpisodeJudgement
from wirefault.judging.oracle.outcome import OUTCOMES, Outcome, Tone
from wirefault.judging.summary import Summary, counted
from wirefault.report.summary import findings_table, headline, usage_lines
from wirefault.report.tables import fault_tables, new_table, one_line
from wirefault.report.terminal import line_width

_WIDTH = 100
_LEAST_PROMPT = 26

STYLES: Mapping[Tone, str] = {
    "good": "green",
    "failed": "yellow",
    "harmful": "bold red",
    "ended": "red",
    "unknown": "dim",
    "lab": "bold magenta",
}


def episode_line(judgement: EpisodeJudgement, index: int, total: int, width: int = _WIDTH) -> Text:
    """A line of at most ``width`` columns: number, outcome, prompt, the faults met, what went wrong.

    What was met is named in full: what has no room goes on below.
    """
    number = f"{index:>{len(str(total))}}/{total}  "
    room = width - len(number) - 16
    column = max(_LEAST_PROMPT, room * 9 // 20)
    line = Text(number, style="dim", no_wrap=True, overflow="ellipsis", end="\n")
    line.append(f"{judgement.outcome:<16}", style="not dim " + _style(judgement.outcome))
    details = room - column - 2
    rows = _rows(_details(judgement, details), details)
    prompt = one_line(judgement.prompt)
    line.append(
        set_cell_size(_clip(prompt, column), column) if rows else _clip(prompt, room), style="not dim"
    )
    below = "\n" + " " * (width - room + column + 2)
    line.append("  " + below.join(rows) if rows else "", style="not dim")
    return line


def _style(outcome: Outcome) -> str:
    return STYLES[OUTCOMES[outcome].tone]


def _details(judgement: EpisodeJudgement, room: int) -> list[str]:
    """What has a place of its own in the history, the words of an exception, has one row here."""
    parts = _delivered(judgement.faults)
    parts += (
        [_clip(one_line(judgement.why), room - 1)] if judgement.why and judgement.outcome != "success" else []
    )
    parts += [f"{judgement.attempts} attempts"] if judgement.attempts > 1 else []
    parts += judgement.flags
    return parts + ([f"{len(judgement.unexplained)} unexplained"] if judgement.unexplained else [])


def _delivered(faults: Iterable[FaultRecord]) -> list[str]:
    """By link, what was injected there, and which toxics were met, though they may not show."""
    by_link: dict[str, Counter[str]] = {}
    for fault in faults:
        if fault.delivered is None or fault.reached("met" if fault.source == "toxic" else "injected"):
            by_link.setdefault(fault.link, Counter())[_fault(fault)] += 1
    return [
        f"{link} " + ", ".join(_unbroken(name, count) for name, count in counts.items())
        for link, counts in by_link.items()
    ]


_KEPT = "\N{NO-BREAK SPACE}"


def _unbroken(what: str, count: int) -> str:
    return (f"{what} x{count}" if count > 1 else what).replace(" ", _KEPT)


_SHORT = {"upstream": "up", "downstream": "down"}


def _fault(fault: FaultRecord) -> str:
    if fault.source == "error":
        what = str(fault.attributes.get("status", fault.kind))
    elif fault.source == "toxic":
        stream = _SHORT.get(fault.stream or "", fault.stream)
        parts = (fault.kind, fault.attributes.get(fault.kind), stream)
        what = " ".join(str(part) for part in parts if part)
    else:
        what = fault.kind
    seen = {True: "", False: " (not seen)", None: " (unknown whether it arrived)"}
    return one_line(what + seen[fault.delivered])


def _rows(parts: Sequence[str], room: int) -> list[str]:
    """All parts in rows of at most ``room`` columns; one that has no room in a row is broken at blanks."""
    ended = [f"{part};" for part in parts[:-1]] + list(parts[-1:])
    wrapper = textwrap.TextWrapper(room, subsequent_indent="  ", break_on_hyphens=False)
    pieces = [piece.replace(_KEPT, " ") for part in ended for piece in wrapper.wrap(part)]
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


def print_summary(
    console: Console, summary: Summary, reproduce: str = "", said: Collection[str] = ()
) -> None:
    """Prints ``summary_table``, and ``reproduce``, the line that repeats the run, unbroken: to be copied."""
    console.print(summary_table(summary, said))
    if reproduce:
        console.print(Text(strip_control(reproduce)), soft_wrap=True)


def summary_table(summary: Summary, said: Collection[str] = ()) -> RenderableType:
    """The summary for people, without the remarks in ``said``, which the user hears of otherwise."""
    blocks: list[RenderableType] = [_head(summary), _outcomes(summary)]
    if summary.oracles or not summary.episodes:
        blocks.append(headline(summary))
    blocks += fault_tables(summary)
    if summary.latency_ms:
        blocks.append(_latency(summary))
    if summary.findings:
        blocks.append(findings_table(summary.findings, summary.run_id))
    if summary.invalid_because:
        blocks.append(_invalid(summary))
    last = [_facts(summary), *(_remark(text) for text in summary.remarks if text not in said)]
    return Group(*(part for block in [*blocks, Group(*last)] for part in (Text(), block)))


def _invalid(summary: Summary) -> Text:
    text = "this run is invalid, the lab did not inject what it had to: "
    return Text(text + one_line("; ".join(summary.invalid_because)), style=STYLES["lab"])


def _head(summary: Summary) -> Text:
    seconds = "-" if summary.duration_s is None else f"{summary.duration_s:.1f} s"
    head = Text(f"run {summary.run_id}", style="bold")
    prompts = counted(len(summary.episodes), "prompt", "prompts")
    head.append(f"   seed {summary.seed}   {prompts}   {seconds}\n", style="not bold")
    return head.append(one_line(summary.subject), style="not bold")


def _outcomes(summary: Summary) -> Table:
    table = new_table("outcome", "n", "meaning", text_columns=(0, 2))
    for row in OUTCOMES.values():  # the best news first
        if row.name in summary.outcomes:
            count = str(summary.outcomes[row.name])
            table.add_row(Text(row.name, style=STYLES[row.tone]), count, Text(row.meaning))
    return table


def _latency(summary: Summary) -> Table:
    table = new_table("latency, ms, of valid replies", "p50", "p95", "p99", "n", "failed")
    for link, latency in summary.latency_ms.items():
        times = ((latency.p50, 1), (latency.p95, 20), (latency.p99, 100))
        # below that n the percentile is just the largest value
        shown = (_ms(value if latency.n >= least else None) for value, least in times)
        table.add_row(link, *shown, str(latency.n), str(latency.failed))
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _facts(summary: Summary) -> Text:
    arming = summary.arming_ms
    left = "unknown" if summary.toxics_left is None else str(summary.toxics_left)
    text = Text(f"request to armed: p50 {_ms(arming['p50'])}, p99 {_ms(arming['p99'])} ms, n = {arming['n']}")
    text.append(f"   toxics left: {left}\n")
    text.append("".join(f"{line}\n" for line in usage_lines(summary.model_usage)))
    because = "; ".join(summary.not_reproducible_because)
    return text.append("reproducible: " + (f"no, because {because}" if because else "yes"))


def _remark(text: str) -> Text:
    return Text(f"note: {one_line(text)}", style="yellow")


class ConsoleAudience:
    """On a terminal the prompt in progress is shown below the lines; elsewhere only whole lines.

    ``alone``: whether no other process writes on this terminal meanwhile, which would break that line.
    ``whole``: the keys of all prompts, where the run flies some of them: its lines are numbered among these.
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

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudgement) -> None:
        index, total = self._places.get(judgement.episode, index), len(self._places) or total
        self._console.print(episode_line(judgement, index, total, line_width(self._console)))

    def close(self) -> None:
        self._live.update(Text(), refresh=self._live.is_started)
        self._live.stop()
