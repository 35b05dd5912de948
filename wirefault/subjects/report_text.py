"""A report at the end of an answer: a JSON object, with or without a code fence. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from wirefault.history.events import Report
from wirefault.subjects.subject import SubjectResult

_STATUSES = ("done", "failed", "unsure")
_FENCE = "```"
# where a report may begin, counted from its end: more braces than that are no report
_MOST_BRACES = 500
_LONGEST = 64 * 1024


def result_of(answer: object) -> SubjectResult:
    """What an attempt with this answer, a text or a JSON value, is recorded as."""
    if not isinstance(answer, str):
        report = as_report(answer)
        text = "" if answer is None else json.dumps(answer, ensure_ascii=False)
    else:
        report, text = read_report(answer), answer.strip()
    if report is not None:
        return SubjectResult("report", report, report.answer)
    return SubjectResult("text" if text else "empty", response=text)


def read_report(answer: str) -> Report | None:
    """The report with which the answer ends, None if it ends otherwise."""
    text = answer.rstrip().removesuffix(_FENCE).rstrip()[-_LONGEST:]
    if not text.endswith("}"):
        return None
    decoder, start = json.JSONDecoder(), len(text)
    for _ in range(_MOST_BRACES):
        start = text.rfind("{", 0, start)
        if start < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # the brace stands in a text, or in prose
            continue
        if end == len(text):
            return as_report(value)
    return None


def as_report(value: object) -> Report | None:
    """The report that this JSON value is; None if it is another one, or not a valid one."""
    if not isinstance(value, Mapping):
        return None
    status, answer, values = value.get("status"), value.get("answer"), value.get("values", [])
    if status not in _STATUSES or not isinstance(answer, str) or not isinstance(values, list):
        return None
    entries = [_value(entry) for entry in values]
    if None in entries:
        return None
    return Report(status, answer, [entry for entry in entries if entry is not None])


def _value(entry: object) -> dict[str, Any] | None:
    """One value with its unit, as ``Report`` has them; None if it is none."""
    if not isinstance(entry, Mapping) or not entry.keys() <= {"value", "unit"}:
        return None
    value, unit = entry.get("value"), entry.get("unit")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return {"value": value, "unit": unit} if unit is None or isinstance(unit, str) else None
