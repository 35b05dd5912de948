"""From a request to steps: clauses, each with its tool, repeated where one clause asks for several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from windtunnel.model_server.arguments import fill
from windtunnel.model_server.clauses import FOLLOW_UP, is_reference, is_smalltalk, steps_of
from windtunnel.model_server.conditions import split_condition
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.lexicon import features
from windtunnel.model_server.matching import THRESHOLD, rank
from windtunnel.model_server.names import (
    mask_quoted,
)
from windtunnel.model_server.operations import operation_of
from windtunnel.model_server.repeats import expand
from windtunnel.model_server.steps import split
from windtunnel.model_server.toolspec import Step, Tool


def plan(
    task: str, earlier: Sequence[str], tools: Sequence[Tool], today: date, before: Sequence[Finding] = ()
) -> tuple[Step, ...]:
    """The steps of the task; none if it needs no tool."""
    if not tools or is_smalltalk(task):
        return ()
    steps = _steps(task, tools, today, before)
    if not steps and earlier and FOLLOW_UP.match(task):
        steps = _elliptic(task, earlier, tools, today)
    return tuple(steps)


def _steps(task: str, tools: Sequence[Tool], today: date, before: Sequence[Finding]) -> list[Step]:
    steps: list[Step] = []
    context: list[str] = []
    pending = ""
    for clause in split(task):
        condition, rest = split_condition(clause)
        condition = condition or pending
        pending = "" if rest else condition
        if condition and not any(not step.tool.writes for step in steps) and not before:
            readers = [tool for tool in tools if not tool.writes]
            asking = steps_of(condition, context, steps, readers, today, before) if readers else []
            steps += [replace(step, asked=False) for step in asking if not step.tool.writes]
        if not rest:
            continue
        head, question = _colon_question(rest)
        found = steps_of(head, context, steps, tools, today, before) if question else []
        if found and not found[-1].tool.required and not found[-1].tool.writes:
            steps += [*found[:-1], replace(found[-1], condition=condition, question=question)]
            continue
        if steps and _asks_more(rest, steps[-1], tools, today):
            steps[-1] = replace(steps[-1], question=f"{steps[-1].question} {rest}".strip())
            continue
        found = steps_of(rest, context, steps, tools, today, before)
        if not found:
            context += [] if is_smalltalk(rest) else [rest]
            continue
        steps += [
            replace(step, condition=condition) if condition and step is found[-1] else step for step in found
        ]
        if any(not is_reference(step.text) for step in found):
            context = []
    return steps


def _colon_question(clause: str) -> tuple[str, str]:
    """ "Read my inbox: what is the budget?" as its two halves; empty strings for any other clause."""
    match = re.match(
        r"([^:]+):\s+((?:what|who|when|where|which|how)\b.*)", mask_quoted(clause), re.IGNORECASE
    )
    return (clause[: match.end(1)], clause[match.start(2) :]) if match else ("", "")


_TELL_ME = re.compile(
    r"^\W*(?:and |please |then |also )*(?:tell|let|show|give|report|inform)\b(?: (?:to "
    r")?me| us)?(?: know)?\b|^\W*(?:what|who|when|where|which|how)\b",
    re.IGNORECASE,
)


def _asks_more(clause: str, last: Step, tools: Sequence[Tool], today: date) -> bool:
    """Whether the clause only says what of the last result is wanted ("and tell me how many there are")."""
    if last.tool.writes or not _TELL_ME.match(clause) or operation_of(clause) not in ("read", "send", ""):
        return False
    if re.match(r"^\W*(?:and |please )*(?:tell|let|inform) (?!me\b|us\b)", clause, re.IGNORECASE):
        return False
    best = rank(clause, tools, today)[0]
    general = "@web" in features(best.tool.name + " " + best.tool.description)
    weak = best.score < THRESHOLD + 0.8 or general or best.tool == last.tool
    told_me = bool(
        re.match(r"^\W*(?:and |please |then |also )*(?:tell|let|show|give|report)\b", clause, re.IGNORECASE)
    )
    own = fill(best.tool, clause, (), today)
    fresh = bool(own.arguments) and not own.missing and best.tool == last.tool and not is_reference(clause)
    return weak and not fresh and (told_me or is_reference(clause))


def _elliptic(task: str, earlier: Sequence[str], tools: Sequence[Tool], today: date) -> list[Step]:
    """ "And in Rome?" after "What's the weather in Paris?"."""
    for text in reversed(earlier):
        former = _steps(text, tools, today, ())
        if former:
            bare = FOLLOW_UP.sub("", task)
            return expand(Step(bare, former[-1].tool, (former[-1].text,)), today)
    return []
