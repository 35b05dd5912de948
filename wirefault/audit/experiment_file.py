"""An audit as an experiment file: the same certain faults, and what must not happen then. Pure.

A question that found nothing keeps its good end. A harmful or risky finding fails the experiment until it is
mended or accepted with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from os.path import normpath
from pathlib import PurePath
from typing import Any

from msgspec import structs

from wirefault.audit.answers import Answer, CleanRuns, writes_by_host
from wirefault.audit.groups import finding_groups
from wirefault.audit.result import AuditResult, clean_key
from wirefault.core.errors import InputError
from wirefault.core.yaml_text import dump_yaml
from wirefault.history.judged_events import Severity
from wirefault.history.logs import strip_control
from wirefault.judging.findings.rules import RULES
from wirefault.judging.judge import JudgedEpisode
from wirefault.wiring.links import Link
from wirefault.wiring.subject_spec import CommandSpec
from wirefault.wiring.wiring import recorded_wiring
from wirefault.wiring.write_requests import path_template

_CHECKABLE = frozenset(rule.name for rule in RULES)
_HEAD = """\
# Made by `wirefault init` or `audit --keep`. Each variant makes one fault certain; its checks are the good
# ends that the audit saw, and that what it found is gone. Each run carries out the command's writes{where}.
"""
_FAILING: frozenset[Severity] = frozenset({"harmful", "risky"})


@dataclass(frozen=True)
class Acceptance:
    """Why findings do not fail the experiment, by the question that each was printed with."""

    reasons: Mapping[str, str]
    on: date

    @classmethod
    def read(cls, texts: Sequence[str], on: date) -> Acceptance:
        """Read ``q01=reason``. Raises ``InputError``."""
        reasons = {}
        for text in texts:
            question, _, reason = (part.strip() for part in text.partition("="))
            if not question or not reason:
                raise InputError(
                    f"--accept {text}: must be a question and a reason, as in q01='the shop has keys'"
                )
            reasons[question] = reason
        return cls(reasons, on)

    def of(self, result: AuditResult) -> Mapping[str, str]:
        """Return the reason of each question with an accepted finding. Raises ``InputError`` for others."""
        by_question: dict[str, str] = {}
        left = dict(self.reasons)
        for group in finding_groups(result.answers):
            reasons = [left.pop(id) for id in group.ids if id in left]
            by_question |= dict.fromkeys(group.ids, reasons[0]) if reasons else {}
        if left:
            raise InputError(
                f"--accept {next(iter(left))}: the audit {result.saved.experiment_id} has no finding there"
            )
        return by_question


def failing_answers(result: AuditResult, accepted: Acceptance) -> list[Answer]:
    """Return the answers with a harmful or risky finding that is not accepted. Raises ``InputError``."""
    reasons = accepted.of(result)
    return [each for each in result.answers if _is_failing(each) and each.ask.id not in reasons]


def _is_failing(answer: Answer) -> bool:
    return answer.worst is not None and answer.worst.severity in _FAILING


def experiment_text(result: AuditResult, wiring_file: str, accepted: Acceptance) -> str:
    """Return the experiment's YAML. ``wiring_file``: the wiring, relative to the experiment's file.

    Raises ``InputError`` if no question leaves a check.
    """
    failing = [answer.ask.id for answer in failing_answers(result, accepted)]
    variants = {
        name: arm
        for answer in result.answers
        for name, arm in _arm(answer, result.patience, answer.ask.id in failing)
    }
    if not variants:
        rest = (
            f"; {result.saved.resume_command} asks the rest" if len(result.answers) < len(result.asks) else ""
        )
        raise InputError(
            f"{result.saved.experiment_id}: no question has an end that a check could keep{rest}"
        )
    prompt = result.saved.plan.prompts[0]
    experiment: dict[str, Any] = {
        "title": f"The good ends of the {result.saved.plan.experiment.title}",
        "wiring": wiring_file,
        "prompts": [{"id": clean_key(1), "prompt": prompt.text}],  # so that memory knows its calls
        "repeats": 2,
        "steady_state": ["crash == 0"],
        "variants": variants,
    }
    lines = (strip_control(" ".join(line.split())) for line in _comments(result, accepted))
    comments = "".join(f"# {line}\n" for line in lines)
    hosts = ", ".join(writes_by_host(result.clean.runs)) if result.clean else ""
    return _HEAD.format(where=f", at {hosts}" if hosts else "") + comments + dump_yaml(experiment)


def _arm(answer: Answer, patience: float, is_failing: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arm of a question that found nothing, or of a finding that must go."""
    if answer.status != "fine" and not is_failing:
        return
    question = answer.ask.question
    entry = question.entry(answer.ask.id, answer.ask.call, patience)
    del entry["only"]["episodes"]
    name, faults = f"{answer.ask.id}_{question.name}", {"faults": [entry]}
    if is_failing:
        yield name, {"faults": faults, "checks": ["no duplicate", "findings == 0"]}
        return
    # the note may be that the server executed both copies
    copied = answer.note and question.fault == "duplicate_request"
    checks: list[Any] = ["findings == 0" if copied else "no duplicate"]
    if not answer.note:
        checks.append("crash == 0")
    checks += [{"no_finding": rule} for rule in question.findings if rule in _CHECKABLE]
    yield name, {"faults": faults, "checks": checks}


def _comments(result: AuditResult, accepted: Acceptance) -> Iterator[str]:
    """Yield a line for each finding: it fails the experiment, was accepted, or is no more than waste."""
    reasons = accepted.of(result)
    for answer in result.answers:
        worst, id = answer.worst, answer.ask.id
        if worst is None:
            continue
        how = (
            f"accepted {accepted.on}, {reasons[id]}"
            if id in reasons
            else "fails"
            if _is_failing(answer)
            else "waste"
        )
        yield f"{how}: {id} {answer.ask.text}: {worst.text}"


def wiring_text(result: AuditResult, folder: str) -> str:
    """Return the wiring that the clean runs showed, with the writes declared.

    ``folder``: the recorded wiring's, relative to the file's.
    """
    clean, wiring = result.clean, result.saved.plan.configuration.wiring
    assert clean is not None and isinstance(wiring.subject, CommandSpec)
    intercept = dict(wiring.data.get("intercept", {}))
    links = [_declared(link, clean) for link in clean.runs[0].trace.links]
    command = wiring.subject
    if command.folder:
        command = command.model_copy(update={"folder": normpath(PurePath(folder) / command.folder)})
    return recorded_wiring(links, intercept, command)


def _declared(link: Link, clean: CleanRuns) -> Link:
    names = {name for run in clean.runs for name in _written(run, link.name)}
    return link if link.is_model else structs.replace(link, writes=tuple(sorted(names)), writes_declared=True)


def _written(run: JudgedEpisode, link: str) -> Iterator[str]:
    for request in run.trace.requests:
        exchange = request.exchange
        if exchange is not None and exchange.link == link and request.is_write:
            name = f"{exchange.method} {path_template(exchange.target)} {request.operation}".rstrip()
            yield exchange.tool or name
