"""From one clause to its steps: the tool, what it refers to, and its repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from windtunnel.model_server.arguments import fill
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.inner import inner_reads
from windtunnel.model_server.lexicon import SMALLTALK, STOPWORDS, WRITES, attributes, features, stem, words
from windtunnel.model_server.matching import THRESHOLD, Match, rank
from windtunnel.model_server.names import (
    find_quoted,
    mask_quoted,
)
from windtunnel.model_server.operations import is_sum, operation_of
from windtunnel.model_server.repeats import expand
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.toolspec import Step, Tool

_PRONOUN = re.compile(
    r"\b(?:it|that|this|them|those|these|both|there)\b(?!\s+(?:is|was|'s|will be)?\s*(?:raining"
    r"|snowing|will|like|going to|time))|\bthe (?:result|results|answer|outcome|figure"
    r"|figures|total|translation|output|sum|number|value|values|list|schedule|reply|confirmation"
    r"|info|information|details|summary|findings?|difference|average)\b|\bwhat you (?:find"
    r"|found|get|got)\b",
    re.IGNORECASE,
)

_DUMMY_IT = re.compile(
    r"\b(?:is|will|how \w+ is|what time is|make|if|that|when|feel|feels) it\b|\bit (?:is"
    r"|will|feels?|rains?|snows?|takes?)\b|\bit's\b|\bthat's\b|\b(?:this|that) (?:week"
    r"|month|year|morning|afternoon|evening|weekend|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday)\b",
    re.IGNORECASE,
)

FOLLOW_UP = re.compile(
    r"^\W*(?:and|what about|how about|now|also|same for|or|then|plus)\b[\s,:]*", re.IGNORECASE
)


def is_smalltalk(task: str) -> bool:
    return len(task) < 240 and any(pattern.search(task.strip()) for pattern in SMALLTALK)


def steps_of(
    clause: str,
    context: Sequence[str],
    steps: Sequence[Step],
    tools: Sequence[Tool],
    today: date,
    before: Sequence[Finding],
) -> list[Step]:
    if is_smalltalk(clause):
        return []
    reads = any(not step.tool.writes for step in steps) or any(not finding.writes for finding in before)
    refers = reads and (is_reference(clause) or _goes_on(clause) or _names_earlier(clause, steps))
    spoken = " ".join(context)
    ranked = rank(clause, tools, today, spoken)
    best = ranked[0]
    if best.score < THRESHOLD:
        best_tool = _inherited(clause, steps, tools, today) or _likely(clause, ranked, today, context)
        best_tool = best_tool or _searcher(clause, tools)
        if best_tool is None:
            return []
        if steps and best_tool == steps[-1].tool and not operation_of(clause):
            context = [*context, steps[-1].text]
    elif not operation_of(clause) and _is_statement(clause) and best.score < 2 * THRESHOLD:
        return []
    else:
        best_tool = best.tool
    if composite := _composite(clause, best_tool, tools, today):
        return composite
    step = Step(clause, best_tool, tuple(reversed(context)), refers)
    inner = inner_reads(step, tools, today, reads)
    if inner and step.tool.operation == "send" and find_quoted(inner[0].text):
        step = replace(step, text=step.text.replace(inner[0].text, ""))
    return [*inner, *expand(replace(step, refers=refers or bool(inner)), today)]


def _composite(clause: str, tool: Tool, tools: Sequence[Tool], today: date) -> list[Step]:
    """ "The temperature difference between Oslo and Rome": two reads and a calculation; empty for other
    clauses."""
    found = re.search(r"\b(difference|average|mean|sum)\b", clause, re.IGNORECASE)
    solvers = [t for t in tools if any(role_of(p, t).kind == "expression" for p in t.params)]
    if not found or not solvers or tool.writes or tool in solvers:
        return []
    reads = expand(Step(re.sub(r"\bbetween\b", "in", clause), tool), today)
    if len(reads) < 2:
        return []
    question = re.sub(r"\bdifference\b", "", clause)
    told = [replace(step, question=question) for step in reads]
    return [*told, Step(f"calculate the {found[1]}", solvers[0], (), True)]


def _names_earlier(clause: str, steps: Sequence[Step]) -> bool:
    """Whether "the height" of the clause is what an earlier step asked for ("how tall")."""
    named = re.findall(r"\bthe (\w+)", mask_quoted(clause).lower())
    for step in steps:
        said = words(step.text + " " + step.question)
        senses = {sense for word in said for sense in attributes(word)}
        stems = {stem(word) for word in said if word not in STOPWORDS}
        for word in named:
            if (
                word not in STOPWORDS
                and not step.tool.writes
                and (stem(word) in stems or senses & {*attributes(word)})
            ):
                return True
    return False


def _goes_on(clause: str) -> bool:
    """Whether the clause is arithmetic on what came before ("add 10")."""
    return is_sum(clause) and any(e.references for e in find_expressions(clause, follow_on=True))


def _is_statement(clause: str) -> bool:
    return bool(
        re.match(
            r"^\W*(?:i(?:'m|'ve| am| have| was| had)|my|we(?:'re| are| have)|the|there(?:'s| "
            r"is| are)|he|she|they)\b",
            clause,
            re.IGNORECASE,
        )
    )


def is_reference(clause: str) -> bool:
    """Whether the clause speaks of an earlier result ("it", "the answer")."""
    masked = mask_quoted(clause)
    masked = re.sub(r"\b(?:saying|that says|that reads)\b.*", "", masked, flags=re.IGNORECASE)
    masked = re.sub(
        r"\b(?:tell|let|inform|notify|message|text|email|remind)\s+[\w.@']+(?:\s+know)?\s+that\s.*",
        "",
        masked,
        flags=re.IGNORECASE,
    )
    return bool(_PRONOUN.search(_DUMMY_IT.sub(" ", masked)))


def _inherited(clause: str, steps: Sequence[Step], tools: Sequence[Tool], today: date) -> Tool | None:
    """The last step's tool for a clause that only names another object ("and in Rome?")."""
    if not steps or operation_of(clause) in WRITES or len(clause.split()) > 7:
        return None
    tool = steps[-1].tool
    bare = FOLLOW_UP.sub("", clause)
    filled = fill(tool, bare, (), today)
    return tool if filled.arguments and not filled.missing else None


def _likely(clause: str, ranked: Sequence[Match], today: date, context: Sequence[str]) -> Tool | None:
    """A tool that suits only weakly, but better than the others and with all that it needs."""
    best, second = ranked[0], ranked[1].score if len(ranked) > 1 else 0.0
    agreed = best.tool.writes and operation_of(clause) == best.tool.operation
    if best.score < 1.0 or best.score < second + 0.25 or not (best.lexical >= 0.75 or agreed):
        return None
    filled = fill(best.tool, clause, context, today)
    return None if filled.missing else best.tool


def _searcher(clause: str, tools: Sequence[Tool]) -> Tool | None:
    """A tool that searches anything, for a question that no other tool answers."""
    if operation_of(clause) != "read":
        return None
    for tool in tools:
        if (
            "@web" in features(tool.name + " " + tool.description)
            and not tool.writes
            and any(role_of(p, tool).kind == "query" for p in tool.params)
        ):
            return tool
    return None
