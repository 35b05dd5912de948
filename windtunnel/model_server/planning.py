"""From a request to steps: clauses, each with its tool, repeated where one clause asks for several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from windtunnel.model_server.areas import POLITE
from windtunnel.model_server.arguments import fill
from windtunnel.model_server.conditions import split_condition
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.expressions import REFERENCE, find_expressions
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.lexicon import SMALLTALK, WRITES, features
from windtunnel.model_server.matching import THRESHOLD, operation_of, rank
from windtunnel.model_server.names import (
    EMAIL,
    IDENTIFIER,
    find_languages,
    find_names,
    find_quoted,
    mask_quoted,
)
from windtunnel.model_server.people import recipients
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.steps import split
from windtunnel.model_server.texts import literal_body, told
from windtunnel.model_server.areas import Area
from windtunnel.model_server.toolspec import Tool


@dataclass(frozen=True)
class Step:
    """One call to make. ``text`` gives its arguments, ``context`` what was said before without a call of its own;
    ``refers``: it builds on earlier results; ``asked``: its values belong into the report."""

    text: str
    tool: Tool
    context: tuple[str, ...] = ()
    refers: bool = False
    condition: str = ""
    asked: bool = True
    question: str = ""


_PRONOUN = re.compile(
    r"\b(?:it|that|this|them|those|these|both|there)\b(?!\s+(?:is|was|'s|will be)?\s*(?:raining|snowing|will|like|going to|time))|\bthe (?:result|results|answer|outcome|figure|figures|total|translation|output|sum|number|value|values|reply|confirmation|info|information|details|summary|findings?|difference|average)\b|\bwhat you (?:find|found|get|got)\b",
    re.IGNORECASE,
)
_DUMMY_IT = re.compile(
    r"\b(?:is|will|does|was|how \w+ is|what time is|make|if|that|when|feel|feels) it\b|\bit (?:is|will|feels?|rains?|snows?|takes?)\b|\bit's\b|\bthat's\b|\b(?:this|that) (?:week|month|year|morning|afternoon|evening|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
    re.IGNORECASE,
)
_FOLLOW_UP = re.compile(
    r"^\W*(?:and|what about|how about|now|also|same for|or|then|plus)\b[\s,:]*", re.IGNORECASE
)


def plan(
    task: str, earlier: Sequence[str], tools: Sequence[Tool], today: date, before: Sequence[Finding] = ()
) -> tuple[Step, ...]:
    """The steps of the task; none if it needs no tool."""
    if not tools or _is_smalltalk(task):
        return ()
    steps = _steps(task, tools, today, before)
    if not steps and earlier and _FOLLOW_UP.match(task):
        steps = _elliptic(task, earlier, tools, today)
    return tuple(steps)


def _is_smalltalk(task: str) -> bool:
    return len(task) < 240 and any(pattern.search(task.strip()) for pattern in SMALLTALK)


def _steps(task: str, tools: Sequence[Tool], today: date, before: Sequence[Finding]) -> list[Step]:
    steps: list[Step] = []
    context: list[str] = []
    pending = ""
    for clause in split(task):
        condition, rest = split_condition(clause)
        condition = condition or pending
        pending = "" if rest else condition
        if condition and not any(not step.tool.writes for step in steps) and not before:
            asking = _of_clause(condition, context, steps, tools, today, before)
            steps += [replace(step, asked=False) for step in asking if not step.tool.writes]
        if not rest:
            continue
        if steps and _asks_more(rest, steps[-1], tools, today):
            steps[-1] = replace(steps[-1], question=f"{steps[-1].question} {rest}".strip())
            continue
        found = _of_clause(rest, context, steps, tools, today, before)
        if not found:
            context += [] if _is_smalltalk(rest) else [rest]
            continue
        steps += [
            replace(step, condition=condition) if condition and step is found[-1] else step for step in found
        ]
        if any(not is_reference(step.text) for step in found):
            context = []
    return steps


_TELL_ME = re.compile(
    r"^\W*(?:and |please |then |also )*(?:tell|let|show|give|report|inform)\b(?: (?:to )?me| us)?(?: know)?\b|^\W*(?:what|who|when|where|which|how)\b",
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


def _of_clause(
    clause: str,
    context: Sequence[str],
    steps: Sequence[Step],
    tools: Sequence[Tool],
    today: date,
    before: Sequence[Finding],
) -> list[Step]:
    if _is_smalltalk(clause):
        return []
    reads = any(not step.tool.writes for step in steps) or any(not finding.writes for finding in before)
    refers = reads and is_reference(clause)
    spoken = " ".join(context)
    ranked = rank(clause, tools, today, spoken)
    best = ranked[0]
    if best.score < THRESHOLD:
        best_tool = _inherited(clause, steps, tools, today) or _searcher(clause, tools)
        if best_tool is None:
            return []
        if steps and best_tool == steps[-1].tool and not operation_of(clause):
            context = [*context, steps[-1].text]
    elif not operation_of(clause) and _is_statement(clause) and best.score < 2 * THRESHOLD:
        return []
    else:
        best_tool = best.tool
    step = Step(clause, best_tool, tuple(reversed(context)), refers)
    inner = _inner_reads(step, tools, today, reads)
    return [*inner, *expand(replace(step, refers=refers or bool(inner)), today)]


def _is_statement(clause: str) -> bool:
    return bool(
        re.match(
            r"^\W*(?:i(?:'m|'ve| am| have| was| had)|my|we(?:'re| are| have)|the|there(?:'s| is| are)|he|she|they)\b",
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
    bare = _FOLLOW_UP.sub("", clause)
    filled = fill(tool, bare, (), today)
    return tool if filled.arguments and not filled.missing else None


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


def _inner_reads(step: Step, tools: Sequence[Tool], today: date, reads: bool) -> list[Step]:
    """What must be found first for "message Bob the weather in Paris"."""
    kinds = {role_of(p, step.tool).kind for p in step.tool.params}
    if not step.tool.writes:
        return _fed_reads(step, kinds, tools, today, reads)
    if step.tool.operation not in ("send", "create") or not kinds & {"body", "title", "amount"}:
        return []
    area = Area(step.text)
    if literal_body(area) is not None:
        return []
    text = step.text
    object_text = _object_of(text, step)
    if not object_text or (
        step.tool.operation == "create"
        and not re.search(
            r"\bthe (?:result|answer|weather|forecast|temperature|sum|product|translation|square root)\b",
            object_text,
        )
    ):
        return []
    if told(Area(text)) and not re.match(r"(?:the|what|how|who|when|where|whether|if)\b", object_text):
        return []
    readers = [tool for tool in tools if not tool.writes]
    if not readers:
        return []
    best = rank(object_text, readers, today)[0]
    if best.score < THRESHOLD + (1.0 if reads else 0.3):
        return []
    inner = Step(object_text, best.tool, (), False)
    filled = fill(best.tool, object_text, (), today)
    return [] if filled.missing or (not filled.arguments and reads) else expand(inner, today)


def _fed_reads(step: Step, kinds: set[str], tools: Sequence[Tool], today: date, reads: bool) -> list[Step]:
    """What must be found first for "translate the latest message of my inbox" or "15% of the temperature in Paris"."""
    others = [tool for tool in tools if not tool.writes and tool != step.tool]
    if not others or find_quoted(step.text):
        return []
    if "expression" in kinds:
        refers = [e for e in find_expressions(step.text, follow_on=False) if e.references]
        match = re.search(REFERENCE, step.text[refers[0].start :], re.IGNORECASE) if refers else None
        text = step.text[refers[0].start + match.start() :] if refers and match else ""
        gain = 0.0
    elif kinds & {"body"} and kinds & {"language"}:
        text = re.sub(r"^\W*(?:please\s+)?\w+\s+", "", POLITE.sub("", step.text))
        gain = 1.0
    else:
        return []
    if not re.match(r"(?:the|my|how|what|who|when)\b", text, re.IGNORECASE):
        return []
    best = rank(text, others, today)[0]
    if (
        best.score < THRESHOLD + gain + (1.0 if reads else 0.0)
        or "@web" in features(best.tool.name + best.tool.description)
        and re.match("the (?:word|phrase|sentence)", text)
    ):
        return []
    filled = fill(best.tool, text, (), today)
    return (
        []
        if filled.missing or (reads and not filled.arguments)
        else expand(Step(text, best.tool, asked=False), today)
    )


def _object_of(text: str, step: Step) -> str:
    """What is to be sent: "the weather in Paris" of "message Bob the weather in Paris"."""
    bare = POLITE.sub("", text)
    offset = len(text) - len(bare)
    spans = [s for s in recipients(Area(text)) if s.start >= offset]
    object_text = text[offset:]
    if spans:
        first = min(spans, key=lambda s: s.start)
        lead = text[offset : first.start]
        after = text[first.end :]
        object_text = after if len(after.split()) >= 2 else lead
    object_text = re.sub(
        r"^\s*(?:know|about|with|of|a message (?:with|about|containing)|,)\b\s*", "", object_text.strip()
    )
    object_text = re.sub(
        r"^(?:send|message|text|email|forward|mail|share|add|create|put|save|store|note down|write)\s+(?:down\s+)?(?:(?:a|an)\s+(?:\w+\s+)?(?:message|text|email|note|sms)\s+(?:with|about|containing|of)\s+)?",
        "",
        object_text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"\s+(?:to|for|via|by)\s*$", "", object_text.strip(" .,"))


def expand(step: Step, today: date) -> list[Step]:
    """One step for each of "Paris, Rome and Oslo", if the tool takes one at a time."""
    for group in _groups(step.text, today):
        if not _repeats(step, group, today):
            continue
        first, last = group[0], group[-1]
        texts = [step.text[: first[0]] + step.text[start:end] + step.text[last[1] :] for start, end in group]
        return [other for text in texts for other in expand(replace(step, text=text), today)]
    return [step]


_BETWEEN = re.compile(
    r"\s*(?:,|and|&|, and|as well as|and also|, then|plus|or|and then)\s*(?:for|in|at|to|on|of|from|into|with|the|what is|what's|in the|weather in|order|orders)?(?: the)?\s*",
    re.IGNORECASE,
)


def _groups(text: str, today: date) -> list[list[tuple[int, int]]]:
    """Runs of things of one kind that are joined by commas and "and"."""
    masked = mask_quoted(text)
    kinds = [
        [(s.start, s.end) for s in find_quoted(text)],
        [(e.start, e.end) for e in find_expressions(masked)],
        [(m.start(), m.end()) for m in EMAIL.finditer(text)],
        [(m.start(), m.end()) for m in IDENTIFIER.finditer(masked)],
        [(s.start, s.end) for s in find_languages(text)],
        [(d.start, d.end) for d in find_dates(masked, today)],
        [(s.start, s.end) for s in find_names(masked)],
    ]
    found = []
    for spans in kinds:
        run: list[tuple[int, int]] = []
        for span in spans:
            if run and not _BETWEEN.fullmatch(text[run[-1][1] : span[0]]):
                if len(run) > 1:
                    found.append(run)
                run = []
            run.append(span)
        if len(run) > 1:
            found.append(run)
    return [run for run in found if _is_listed(text, run)]


def _is_listed(text: str, run: list[tuple[int, int]]) -> bool:
    """Not "between A and B"; not "Paris, France", which has no "and"."""
    if re.search(r"\bbetween\s+(?:the\s+)?$", text[: run[0][0]]):
        return False
    joints = [text[a[1] : b[0]] for a, b in zip(run, run[1:], strict=False)]
    return any(re.search(r"\band\b|&|\bor\b|\bplus\b|as well", joint) for joint in joints)


def _repeats(step: Step, group: list[tuple[int, int]], today: date) -> bool:
    """Whether one argument of the tool takes one of the group, and no other the rest."""
    first = step.text[group[0][0] : group[0][1]]
    whole = step.text[group[0][0] : group[-1][1]]
    alone = step.text[: group[0][0]] + first + step.text[group[-1][1] :]
    filled = fill(step.tool, alone, (), today).arguments
    together = fill(step.tool, step.text, (), today).arguments
    other = step.text[: group[0][0]] + step.text[group[-1][0] : group[-1][1]] + step.text[group[-1][1] :]
    changed = [
        name
        for name, value in fill(step.tool, other, (), today).arguments.items()
        if filled.get(name) != value
    ]
    if len(changed) != 1:
        return False
    param = next(p for p in step.tool.params if p.name == changed[0])
    role = role_of(param, step.tool).kind
    if param.kind == "array" or len(set(map(str, together.values())) - set(map(str, filled.values()))) > 1:
        return False
    free_text = role in ("title", "body", "query", "string")
    return not free_text or (
        _is_whole(filled[changed[0]], first) and not _covers(together.get(changed[0]), whole, step)
    )


def _is_whole(value: Any, part: str) -> bool:
    return isinstance(value, str) and value.strip("\"'“”‘’ ").casefold() == part.strip("\"'“”‘’ ").casefold()


def _covers(value: Any, whole: str, step: Step) -> bool:
    """ "Search for Marie Curie and Pierre Curie" is one query, "the movies Dune and Alien" are two."""
    quoted = bool(find_quoted(whole))
    return (
        not quoted
        and isinstance(value, str)
        and whole.casefold() in value.casefold()
        and "@web" in features(step.tool.name + step.tool.description)
    )


def _elliptic(task: str, earlier: Sequence[str], tools: Sequence[Tool], today: date) -> list[Step]:
    """ "And in Rome?" after "What's the weather in Paris?"."""
    for text in reversed(earlier):
        former = _steps(text, tools, today, ())
        if former:
            bare = _FOLLOW_UP.sub("", task)
            return expand(Step(bare, former[-1].tool, (former[-1].text,)), today)
    return []
