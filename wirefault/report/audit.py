"""An audit on the console: findings first, the worst at the top."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from wirefault.audit.answers import Answer, CleanRuns, model_tokens
from wirefault.audit.calls import Call
from wirefault.audit.result import AuditResult
from wirefault.history.logs import strip_control
from wirefault.judging.checker import SEVERITIES, Severity
from wirefault.report.experiment import junit_text, xml_text
from wirefault.report.next_command import why_line
from wirefault.report.tables import one_line

_WORDS: dict[Severity, str] = {"harmful": "HARM", "risky": "RISK", "wasteful": "WASTE", "note": "note"}
_STYLES: dict[str, str] = {"HARM": "bold red", "RISK": "bold yellow", "WASTE": "yellow"}


def print_calls(console: Console, result: AuditResult) -> None:
    """Print what the clean runs show: the calls, the writes, and what no fault can reach."""
    clean = result.clean
    if clean is None or not clean.calls:
        return
    console.print(Text(strip_control("calls: " + "   ".join(_links(clean)))), soft_wrap=True)
    writes = [call.key.name for call in clean.calls if call.kind == "write"]
    if writes:
        names = ", ".join(dict.fromkeys(writes))
        console.print(
            Text(f"writes: {names} ({len(writes)} a run; correct it by --write and --read)"), soft_wrap=True
        )
    if result.writes == "answer":
        console.print(
            "writes in runs with faults are answered by Wirefault; the clean runs carried theirs out"
        )
    for sentence in clean.unreachable:
        console.print(Text(f"cannot reach: {one_line(sentence)}", style="yellow"), soft_wrap=True)
    if result.sequential:
        sentence = f"{result.sequential}: the runs are made one after another"
        console.print(Text(one_line(sentence), style="yellow"), soft_wrap=True)
    if clean.incomparable:
        sentence = f"runs cannot be compared with the clean ones: {clean.incomparable}"
        console.print(Text(sentence, style="yellow"), soft_wrap=True)


def _links(clean: CleanRuns) -> Iterator[str]:
    by_link: dict[str, list[Call]] = {}
    for call in clean.calls:
        by_link.setdefault(call.key.link, []).append(call)
    for link, calls in by_link.items():
        names = [call.reply or call.text if call.kind == "model" else call.key.name for call in calls]
        kind = "model " if calls[0].kind == "model" else ""
        written = {call.key.name for call in calls if call.kind == "write"}
        marked = [f"{name} writes" if name in written else name for name in dict.fromkeys(names)]
        yield f"{kind}{link} ({', '.join(one_line(name) for name in marked)})"


def print_plan(console: Console, result: AuditResult) -> None:
    """Print the questions that would be asked."""
    for ask in result.asks:
        console.print(Text(strip_control(f"{ask.id}  {ask.text}")), soft_wrap=True)
    writes = sum(call.executed for call in result.clean.calls) if result.clean else 0
    count = sum(1 if ask.question.hangs else 2 for ask in result.asks)
    again = f"about {count * writes} writes carried out again"
    if result.writes == "answer":
        again = "writes answered by Wirefault in the server's place, none carried out again"
    console.print(
        f"{len(result.asks)} questions, {count} runs or a few more; {again}; a hang lasts"
        f" {result.patience:.0f} s",
        soft_wrap=True,
    )


def print_answer(console: Console, answer: Answer) -> None:
    """Print a finding as soon as it is confirmed."""
    if answer.status == "finding":
        console.print(_finding_line(answer), soft_wrap=True)


def print_audit(console: Console, result: AuditResult, not_asked: Sequence[str]) -> None:
    """Print all answers, the findings first."""
    clean = result.clean
    assert clean is not None
    command = " ".join(map(shlex.quote, result.saved.plan.configuration.wiring.arguments[2:]))
    tokens = model_tokens(clean.runs)
    spent = f", {tokens} model tokens in a clean run" if tokens else ""
    console.print()
    console.print(
        Text(
            strip_control(
                f"audit of: {command}    {result.runs} runs in 1 lab, {result.seconds:.0f} s{spent}"
                f"    clean: {len(clean.calls)} calls, exit 0, {clean.seconds:.1f} s"
            )
        ),
        soft_wrap=True,
    )
    print_calls(console, result)
    console.print()
    findings = sorted((answer for answer in result.answers if answer.status == "finding"), key=_gravity)
    for answer in findings:
        console.print(_finding_line(answer), soft_wrap=True)
        for other in answer.others:
            line = f"      also {_WORDS[other.severity].lower()}: {one_line(other.text)}"
            console.print(Text(line, style="dim"), soft_wrap=True)
    fine = [answer for answer in result.answers if answer.status == "fine"]
    for answer in fine:
        if answer.note:
            console.print(
                Text(f"note  {one_line(f'{answer.ask.text}: {answer.note}')}  {answer.ask.id}"),
                soft_wrap=True,
            )
    if fine:
        names = "; ".join(one_line(answer.ask.text) for answer in fine)
        line_of_fine = f"fine  {len(fine)} of {len(result.answers)} questions: {names}"
        console.print(Text(strip_control(line_of_fine)), soft_wrap=True)
    for answer in result.answers:
        if answer.status == "unknown":
            sentence = f"unknown  {answer.ask.text}: {answer.why} ({answer.ask.id})"
            console.print(Text(one_line(sentence), style="yellow"), soft_wrap=True)
    if not_asked:
        console.print(Text("not asked: " + "; ".join(not_asked), style="dim"))
    unknown = sum(answer.status == "unknown" for answer in result.answers)
    console.print(f"{len(findings)} findings, {len(fine)} fine, {unknown} unknown")
    if findings:
        console.print(Text(strip_control(_why(result, findings[0]))), soft_wrap=True)


def _why(result: AuditResult, answer: Answer) -> str:
    run = answer.shown_run
    episode = answer.ask.id
    if run is not None:
        place = answer.runs.index(run)
        episode = answer.ask.id if place == 0 else f"{answer.ask.id}.r{place + 1}"
    return why_line(result.saved.experiment_id, episode, result.saved.logs)


def _gravity(answer: Answer) -> tuple[int, str]:
    worst = answer.worst
    return (SEVERITIES.index(worst.severity) if worst else len(SEVERITIES), answer.ask.id)


def _finding_line(answer: Answer) -> Text:
    worst = answer.worst
    assert worst is not None
    word = _WORDS[worst.severity]
    seen, of = answer.times
    count = f" ({seen} of {of})" if seen < of else ""
    text = Text(f"{word:<5} ", style=_STYLES.get(word, ""))
    text.append(one_line(f"{answer.ask.text}: {worst.text}{count}"), style="default")
    text.append(f"  {answer.ask.id}", style="dim")
    return text


def audit_junit(result: AuditResult) -> str:
    """Return JUnit XML with a case per question: a finding is a failure, an unknown answer an error."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=xml_text(result.saved.plan.experiment.title))
    for answer in result.answers:
        names = {
            "classname": answer.ask.call.key.link,
            "name": xml_text(f"{answer.ask.id} {answer.ask.text}"),
        }
        case = ElementTree.SubElement(suite, "testcase", names)
        worst = answer.worst
        if answer.status == "unknown":
            ElementTree.SubElement(case, "error", message=xml_text(answer.why))
        elif worst is not None and worst.severity in ("harmful", "risky"):
            ElementTree.SubElement(case, "failure", message=xml_text(worst.text), type=worst.rule)
    if result.problem:
        case = ElementTree.SubElement(suite, "testcase", classname="audit", name="clean runs")
        ElementTree.SubElement(case, "error", message=xml_text(result.problem))
    return junit_text(root)


def audit_as_json(result: AuditResult, not_asked: Sequence[str]) -> dict[str, Any]:
    """Return the audit as one JSON object."""
    clean = result.clean
    return {
        "experiment": result.saved.experiment_id,
        "title": result.saved.plan.experiment.title,
        "verdict": audit_verdict(result),
        "command": list(result.saved.plan.configuration.wiring.arguments[2:]),
        "problem": result.problem,
        "runs": result.runs,
        "seconds": round(result.seconds, 3),
        "patience_s": result.patience,
        "writes": result.writes,
        "calls": [_call_as_json(call) for call in clean.calls] if clean else [],
        "unreachable": clean.unreachable if clean else [],
        "varies": result.sequential,
        "incomparable": clean.incomparable if clean else "",
        "answers": list(_answers_as_json(result.answers)),
        "not_asked": list(not_asked),
    }


def audit_verdict(result: AuditResult) -> str:
    """Return the audit's verdict in a word or two."""
    if result.problem or not result.answers:
        return "nothing asked"
    findings = sum(answer.status == "finding" for answer in result.answers)
    return f"{findings} findings" if findings != 1 else "1 finding"


def _call_as_json(call: Call) -> dict[str, Any]:
    return {
        "link": call.key.link,
        "name": call.key.name,
        "ordinal": call.ordinal,
        "kind": call.kind,
        "text": call.text,
        "executed": call.executed,
    }


def _answers_as_json(answers: Iterable[Answer]) -> Iterator[dict[str, Any]]:
    for answer in answers:
        worst, (seen, of) = answer.worst, answer.times
        yield {
            "id": answer.ask.id,
            "question": answer.ask.question.name,
            "text": answer.ask.text,
            "link": answer.ask.call.key.link,
            "call": answer.ask.call.key.name,
            "status": answer.status,
            "severity": worst.severity if worst else None,
            "finding": worst.rule if worst else None,
            "finding_text": worst.text if worst else None,
            "also": [
                {"finding": each.rule, "severity": each.severity, "text": each.text} for each in answer.others
            ],
            "seen": seen if worst else 0,
            "of": of,
            "why": answer.why,
            "runs": [
                {"run": run.run_id, "status": run.status, "seconds": round(run.seconds, 3), "why": run.why}
                for run in answer.runs
            ],
        }
