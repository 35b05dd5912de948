"""An audit as an experiment file: the same certain faults, with today's good ends as checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from wirefault.audit.answers import Answer, CleanRuns, RunView, writes_by_host
from wirefault.audit.result import AuditResult
from wirefault.core.yaml_text import dump_yaml
from wirefault.judging.findings.rules import RULES
from wirefault.wiring.links import Link
from wirefault.wiring.subject_spec import CommandSpec
from wirefault.wiring.wiring import recorded_wiring
from wirefault.wiring.write_requests import path_template

_CHECKABLE = frozenset(rule.name for rule in RULES)
_HEAD = """\
# Made by `wirefault audit --keep`. Each variant makes one fault certain; its checks are today's good ends.
# Each run carries out the command's writes{where}.
"""


def experiment_text(result: AuditResult, wiring_file: str) -> str:
    """Return the experiment's YAML. ``wiring_file``: the wiring, relative to the experiment's file."""
    prompt = result.saved.plan.prompts[0]
    experiment: dict[str, Any] = {
        "title": f"The good ends of the {result.saved.plan.experiment.title}",
        "wiring": wiring_file,
        "prompts": [{"id": "audit", "prompt": prompt.text}],
        "repeats": 2,
        "steady_state": ["crash == 0"],
        "variants": {name: arm for answer in result.answers for name, arm in _arm(answer, result.patience)},
    }
    accepted = "".join(f"# accepted: {line}\n" for line in _accepted(result.answers))
    hosts = ", ".join(writes_by_host(result.clean.runs)) if result.clean else ""
    return _HEAD.format(where=f", at {hosts}" if hosts else "") + accepted + dump_yaml(experiment)


def _arm(answer: Answer, patience: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arm of a question that found nothing; others have no good end to keep."""
    if answer.status != "fine":
        return
    question = answer.ask.question
    entry = question.entry(answer.ask.id, answer.ask.call, patience)
    del entry["only"]["episodes"]
    rules = [rule for rule in question.rule.split(", ") if rule in _CHECKABLE]
    checks: dict[str, Any] = {"hypothesis": ["no duplicate"]}
    if not answer.note:
        checks["hypothesis"].append("crash == 0")
    if rules:
        checks["assertions"] = [{"no_finding": rule} for rule in rules]
    yield f"{answer.ask.id}_{question.name}", {"faults": {"faults": [entry]}, **checks}


def _accepted(answers: Sequence[Answer]) -> Iterator[str]:
    for answer in answers:
        worst = answer.worst
        if answer.status == "finding" and worst is not None:
            yield f"{answer.ask.id} {answer.ask.text}: {worst.text}"


def wiring_text(result: AuditResult) -> str:
    """Return the wiring that the clean runs showed, with the writes declared."""
    clean, wiring = result.clean, result.saved.plan.configuration.wiring
    assert clean is not None and isinstance(wiring.subject, CommandSpec)
    intercept = dict(wiring.data.get("intercept", {}))
    links = [_declared(link, clean) for link in clean.runs[0].trace.links]
    return recorded_wiring(links, intercept, wiring.subject)


def _declared(link: Link, clean: CleanRuns) -> Link:
    names = {name for run in clean.runs for name in _written(run, link.name)}
    return link if link.is_model else replace(link, writes=tuple(sorted(names)), writes_declared=True)


def _written(run: RunView, link: str) -> Iterator[str]:
    for request in run.trace.requests:
        exchange = request.exchange
        if exchange is not None and exchange.link == link and request.is_write:
            name = f"{exchange.method} {path_template(exchange.target)} {request.operation}".rstrip()
            yield exchange.tool or name
