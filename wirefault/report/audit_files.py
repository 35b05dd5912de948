"""An audit as JSON and as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from wirefault.audit.answers import Answer
from wirefault.audit.calls import Call
from wirefault.audit.groups import FindingGroup, finding_groups
from wirefault.audit.options import load_options
from wirefault.audit.result import AuditResult, answer_findings, not_asked
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.judging.ending import FINE, FOUND, UNDECIDED, FailOn, early_word_of, fails
from wirefault.judging.findings.finding import worst_finding
from wirefault.judging.summary import counted
from wirefault.report.audit import show_command, shown_key
from wirefault.report.junit import junit_text, xml_text
from wirefault.report.page_links import page_links


def audit_junit(result: AuditResult, fail_on: FailOn = "risky") -> str:
    """Return JUnit XML with a case per question: a finding is a failure, an unknown answer an error.

    ``fail_on``: the least severity of a failure.
    """
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=xml_text(result.saved.plan.experiment.title))
    links = page_links(result.saved)
    for answer in result.answers:
        names = {
            "classname": answer.ask.call.key.link,
            "name": xml_text(f"{answer.ask.id} {answer.ask.text}"),
        }
        case = ElementTree.SubElement(suite, "testcase", names)
        worst = answer.worst
        if answer.status == "unknown":
            ElementTree.SubElement(case, "error", message=xml_text(answer.why))
        elif worst is not None and fails(worst.severity, fail_on):
            failure = ElementTree.SubElement(case, "failure", message=xml_text(worst.text), type=worst.rule)
            seen, of = answer.times
            page = links[PLAIN_RUN, shown_key(answer)]
            runs, why = counted(of, "run"), show_command(result, answer)
            text = f"seen in {seen} of {runs}\nwhy: {why}\npage: {page}"
            failure.text = xml_text(text)
    unasked = len(result.asks) - len(result.answers)
    if unasked and not result.problem and not load_options(result.saved).dry_run:
        case = ElementTree.SubElement(suite, "testcase", classname="audit", name="all questions")
        questions = counted(len(result.asks), "question")
        word, so_far = audit_verdict(result), worst_finding(answer_findings(result.saved)) or "none"
        message = f"{word}: {unasked} of {questions} not asked; worst finding so far: {so_far}"
        ElementTree.SubElement(case, "error", message=message)
    if result.problem:
        case = ElementTree.SubElement(suite, "testcase", classname="audit", name="clean runs")
        ElementTree.SubElement(case, "error", message=xml_text(result.problem))
    return junit_text(root)


def audit_as_json(result: AuditResult) -> dict[str, Any]:
    """Return the audit as one JSON object."""
    clean = result.clean
    return {
        "experiment": result.saved.experiment_id,
        "title": result.saved.plan.experiment.title,
        "verdict": audit_verdict(result),
        "command": list(result.saved.plan.configuration.wiring.arguments[2:]),
        "problem": result.problem,
        "runs": len(result.saved.run_ids(result.saved.plan.arms[0])),
        **({} if result.seconds is None else {"seconds": round(result.seconds, 3)}),
        "patience_s": result.patience,
        "writes": result.writes,
        "model": {**asdict(result.spent), "estimated": asdict(result.estimate(result.planned))},
        "calls": [_call_as_json(call) for call in clean.calls] if clean else [],
        "clean_seconds": round(clean.seconds, 3) if clean else None,
        "unreachable": clean.unreachable if clean else [],
        "varies": result.sequential,
        "incomparable": clean.incomparable if clean else "",
        "findings": [_group_as_json(group, result) for group in finding_groups(result.answers)],
        "answers": list(_answers_as_json(result.answers)),
        "not_asked": not_asked(result),
    }


def audit_verdict(result: AuditResult) -> str:
    """Return what the audit showed, in the words of a run."""
    if result.early or result.code:
        return result.early or early_word_of(result.code)
    severities = [group.worst.severity for group in finding_groups(result.answers)]  # the worst first
    if severities and severities[0] in FOUND:
        return FOUND[severities[0]]
    answered = [answer for answer in result.answers if answer.status != "unknown"]
    if not answered or len(answered) < len(result.asks):
        return UNDECIDED
    return FINE


def _call_as_json(call: Call) -> dict[str, Any]:
    return {
        "link": call.key.link,
        "name": call.key.name,
        "ordinal": call.ordinal,
        "kind": call.kind,
        "text": call.text,
        "executed": call.executed,
    }


def _group_as_json(group: FindingGroup, result: AuditResult) -> dict[str, Any]:
    """Return what the console prints as one line."""
    seen, of = group.times
    return {
        "severity": group.worst.severity,
        "finding": group.worst.rule,
        "headline": group.worst.headline,
        "text": group.text,
        "sentence": group.sentence,
        "questions": group.ids,
        "calls": list(dict.fromkeys(answer.ask.call.text for answer in group.answers)),
        "seen": seen,
        "of": of,
        "evidence": list(group.worst.evidence),
        "show": show_command(result, group.answers[0]),
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
            "evidence": list(worst.evidence) if worst else [],
            "also": [
                {
                    "finding": each.rule,
                    "severity": each.severity,
                    "text": each.text,
                    "evidence": list(each.evidence),
                }
                for each in answer.others
            ],
            "seen": seen if worst else 0,
            "of": of,
            "why": answer.why,
            "note": answer.note,
            "runs": [
                {"run": run.run_id, "status": run.status, "seconds": round(run.seconds, 3), "why": run.why}
                for run in answer.runs
            ],
        }
