"""The argument of a calculator: arithmetic of the text, with earlier results put in."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.numbers import plain
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.toolspec import Param


def expression(scope: Scope, param: Param, side: str) -> Any:
    figures = [value.value for finding in scope.past for value in finding.values if value.is_number]
    for area in scope.texts(param):
        for found in area.free(find_expressions(area.text, follow_on=bool(figures))):
            if found.references > len(figures):
                continue
            area.use(found.start, found.end)
            used = figures[-found.references :] if found.references else []
            scope.leaned = scope.leaned or bool(used)
            return found.formula.format(*(plain(float(value)) for value in used))
    for area in scope.texts(param):
        match = re.search(r"[\d(][\d\s.+*/()%^-]*[\d)]", area.text)
        if match and re.search(r"\d\s*[+*/^%-]", match.group()):
            area.use(match.start(), match.end())
            return match.group().strip().replace("^", "**")
    return _over_earlier(scope, figures)


def _over_earlier(scope: Scope, figures: list[Any]) -> Any:
    """ "Add them up", "the average": arithmetic over the figures found so far."""
    text = scope.areas[0].text.lower()
    written = [plain(float(value)) for value in figures]
    if len(written) < 2:
        return MISSING
    for pattern, joint in (
        (r"\b(?:sum|total|add|altogether|combined)\b", " + "),
        (r"\b(?:average|mean)\b", "mean"),
        (r"\b(?:difference|subtract|warmer|colder|more|less|taller|older)\b", " - "),
        (r"\b(?:product|multiply)\b", " * "),
        (r"\b(?:ratio|divide|quotient)\b", " / "),
    ):
        if re.search(pattern, text):
            scope.leaned = True
            if joint == "mean":
                return f"({' + '.join(written)}) / {len(written)}"
            return joint.join(sorted(written[-2:], key=float, reverse=True) if joint == " - " else written)
    return MISSING
