"""An audit on the console: findings first, the worst at the top."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from wirefault.audit.answers import Answer, CleanRuns
from wirefault.audit.calls import Call
from wirefault.audit.groups import FindingGroup, asked_text, call_texts, finding_groups
from wirefault.audit.result import AuditResult
from wirefault.audit.spending import Spending
from wirefault.history.logs import strip_control
from wirefault.judging.summary import counted
from wirefault.report.fixes import HELPS, WORDS, snippet_for
from wirefault.report.next_command import episode_command
from wirefault.report.tables import one_line
from wirefault.report.terminal import line_width
from wirefault.wiring.links import Link

_STYLES: dict[str, str] = {"HARM": "bold red", "RISK": "bold yellow", "WASTE": "yellow"}
_INDENT = " " * 6
_GAP = "    "


def print_calls(console: Console, result: AuditResult) -> None:
    """Print what the clean runs show: the calls, the writes, and what no fault can reach."""
    clean = result.clean
    if clean is None or not clean.calls:
        return
    _print_missed(console, clean)
    _print_pieces(console, _calls(clean))
    writes = [call.key.name for call in clean.calls if call.kind == "write"]
    if writes:
        names = ", ".join(dict.fromkeys(writes))
        _print_line(console, f"writes: {names} ({len(writes)} a run; correct it by --write and --read)")
    if result.sequential:
        _print_line(console, f"{result.sequential}: the runs are made one after another", style="yellow")
    if clean.incomparable:
        sentence = f"runs cannot be compared with the clean ones: {clean.incomparable}"
        _print_line(console, sentence, style="yellow")


def _print_missed(console: Console, clean: CleanRuns) -> None:
    for sentence in clean.unreachable:
        _print_line(console, f"cannot reach: {one_line(sentence)}", style="yellow")


def _calls(clean: CleanRuns) -> list[str]:
    """Return each link with its calls."""
    first, *others = _links(clean)
    return [f"calls: {first}", *others]


def _links(clean: CleanRuns) -> Iterator[str]:
    by_link: dict[str, list[Call]] = {}
    for call in clean.calls:
        by_link.setdefault(call.key.link, []).append(call)
    for name, calls in by_link.items():
        names = [call.reply or call.text if call.kind == "model" else call.key.name for call in calls]
        kind = "model " if calls[0].kind == "model" else ""
        written = {call.key.name for call in calls if call.kind == "write"}
        marked = [f"{each} writes" if each in written else each for each in dict.fromkeys(names)]
        server = _server(clean.runs[0].trace.links[name])
        yield f"{kind}{server} ({', '.join(one_line(each) for each in marked)})"


def _server(link: Link) -> str:
    """Return the link's server; of a link that a wiring names, its name and the server."""
    host = urlsplit(link.upstream).netloc if "://" in link.upstream else ""
    return host if link.found and host else f"{link.name} {host}".rstrip()


def print_plan(console: Console, result: AuditResult, *, listed: bool) -> None:
    """Print how much would be asked; the questions themselves if ``listed``."""
    if listed:
        for ask in result.asks:
            _print_line(console, ask.text, head=f"{ask.id}  ")
    writes = sum(call.executed for call in result.clean.calls) if result.clean else 0
    count = len(result.planned)
    again = f"about {counted(count * writes, 'write')} carried out again"
    if result.writes == "answer":
        again = "writes answered by Wirefault in the server's place, none carried out again"
    _print_line(
        console,
        f"{counted(len(result.asks), 'question')}, {counted(count, 'run')} or a few more; {again};"
        " a hang lasts"
        f" {result.patience:.0f} s",
    )


def print_answer(console: Console, answer: Answer) -> None:
    """Print a finding as soon as it is confirmed."""
    for group in finding_groups([answer]):
        _print_group(console, group)


def print_audit(
    console: Console, result: AuditResult, not_asked: Sequence[str], further: Sequence[str]
) -> None:
    """Print all answers, the findings first. ``further``: after the command that shows the worst."""
    clean = result.clean
    assert clean is not None
    console.print()
    _print_pieces(console, _head(result, clean))
    _print_pieces(console, _calls(clean))
    _print_missed(console, clean)
    if result.writes == "answer":
        _print_line(
            console,
            "writes in runs with faults were answered by Wirefault; the clean runs carried theirs out",
        )
    if result.replayed:
        _print_line(console, _replay_line(result.spent))
    if result.replies_not_kept:
        _print_line(
            console,
            f"{result.replies_not_kept} recorded replies to writes have secrets and are not kept:"
            " wirefault run --again cannot repeat the runs that need them",
        )
    console.print()
    groups = finding_groups(result.answers)
    for group in groups:
        _print_group(console, group)
        for other in group.others:
            text = f"also {WORDS[other.severity].lower()}: {other.text}"
            _print_line(console, text, head=_INDENT, style="dim")
    _print_others(console, result.answers)
    unknown = sum(answer.status == "unknown" for answer in result.answers)
    left_out = ["not asked: " + ", ".join(not_asked)] if not_asked else []
    _print_pieces(console, [*left_out, f"unknown: {unknown}"])
    worst = groups[0].answers if groups else [each for each in result.answers if each.status == "unknown"]
    why = [f"why: {show_command(result, worst[0])}"] if worst else []
    _print_pieces(console, [*why, *further])


def _head(result: AuditResult, clean: CleanRuns) -> list[str]:
    command = " ".join(map(shlex.quote, result.saved.plan.configuration.wiring.arguments[2:]))
    return [
        f"audit of: {command}",
        f"clean: {counted(len(clean.calls), 'call')}, exit 0, {clean.seconds:.1f} s",
    ]


def _replay_line(spending: Spending) -> str:
    """Say how many of the model's replies before the fault were the clean run's."""
    missed = f"; {spending.missed} more went to the model, since no recorded reply fitted"
    return (
        f"replayed from the clean run: {counted(spending.saved_requests, 'model request')} before a fault,"
        f" {spending.saved_tokens} tokens saved{missed if spending.missed else ''}"
    )


def _print_others(console: Console, answers: Sequence[Answer]) -> None:
    """Print the questions without a finding: notes, those that are fine, and unknown ones."""
    fine = [answer for answer in answers if answer.status == "fine"]
    notes: dict[str, list[Answer]] = {}
    for answer in fine:
        if answer.note:
            notes.setdefault(answer.note, []).append(answer)
    for note, noted in notes.items():
        _print_line(console, f"{asked_text(noted)}: {note}", head="note  ", tail=_ids(noted))
    quiet = [answer for answer in fine if not answer.note]
    if quiet:
        questions = f"{len(quiet)} questions" if len(quiet) > 1 else "1 question"
        _print_line(console, f"{questions}: {'; '.join(call_texts(quiet))}", head="fine  ")
    unknown: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.status == "unknown":
            unknown.setdefault(answer.why, []).append(answer)
    for why, each in unknown.items():
        text = f"{asked_text(each)}: {why}"
        _print_line(console, text, head="unknown  ", style="yellow", tail=_ids(each))


def show_command(result: AuditResult, answer: Answer) -> str:
    """Return the command that shows the run behind the answer."""
    return episode_command(result.saved.experiment_id, shown_key(answer), result.saved.logs)


def shown_key(answer: Answer) -> str:
    """Return the key of the episode that shows the answer."""
    run = answer.shown_run
    place = answer.runs.index(run) if run is not None else 0
    return answer.ask.id if place == 0 else f"{answer.ask.id}.r{place + 1}"


def _print_group(console: Console, group: FindingGroup) -> None:
    worst = group.worst
    word = WORDS[worst.severity]
    seen, of = group.times
    tail, style = f"{seen} of {of}  {_ids(group.answers)}", _STYLES.get(word, "")
    headline = worst.headline or group.text
    _print_line(console, headline, head=f"{word:<5} ", head_style=style, tail=tail)
    if helps := HELPS.get(worst.rule):
        _print_line(console, f"What usually helps: {helps}", head=_INDENT)
    for line in snippet_for(worst).splitlines():
        console.print(Text(f"{_INDENT}  {line}"), soft_wrap=True)
    if worst.headline:
        _print_line(console, f"Evidence: {group.text}", head=_INDENT, style="dim")


def _ids(answers: Sequence[Answer]) -> str:
    return " ".join(answer.ask.id for answer in answers)


def _print_line(
    console: Console, text: str, *, head: str = "", head_style: str = "", style: str = "", tail: str = ""
) -> None:
    """Print a line; on a terminal, wrapped under its head, with the tail at the right edge."""
    text = one_line(text)
    if not console.is_terminal:
        lines = [head + text + (f"  {tail}" if tail else "")]
    else:
        width = line_width(console)
        indent = " " * min(len(head), len(_INDENT)) if head else "  "
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=head,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [head]
        if tail:
            if len(lines[-1]) + 2 + len(tail) > width:
                lines.append("")
            lines[-1] += tail.rjust(width - len(lines[-1]))
    for number, line in enumerate(lines):
        printed = Text(strip_control(line), style=style)
        if number == 0 and head_style:
            printed.stylize(head_style, 0, len(head.rstrip()))
        console.print(printed, soft_wrap=True)


def _print_pieces(console: Console, pieces: Sequence[str]) -> None:
    """Print the pieces on one line; on a terminal, on as few lines as they fit."""
    width = line_width(console) if console.is_terminal else 0
    lines: list[str] = []
    for piece in map(one_line, pieces):
        if lines and (not width or len(lines[-1]) + len(_GAP) + len(piece) <= width):
            lines[-1] += _GAP + piece
        else:
            lines.append(("  " if lines else "") + piece)
    for line in lines:
        if width and len(line) > width:
            _print_line(console, line.strip())
        else:
            console.print(Text(strip_control(line)), soft_wrap=True)
