"""One clause that asks for several calls: "the weather in Paris and Rome"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any

from windtunnel.model_server.arguments import fill
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.lexicon import features
from windtunnel.model_server.names import (
    EMAIL,
    IDENTIFIER,
    find_languages,
    find_names,
    find_quoted,
    mask_quoted,
)
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.toolspec import Step


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
    r"\s*(?:,|and|&|, and|as well as|and also|, then|plus|or|and then)\s*(?:for|in|at"
    r"|to|on|of|from|into|with|the|what is|what's|in the|weather in|order|orders)?(?: "
    r"the)?\s*",
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
    joints = [text[a[1] : b[0]] for a, b in pairwise(run)]
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
