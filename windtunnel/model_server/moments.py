"""Arguments that are dates, times of day or lengths of time."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.figures import amount
from windtunnel.model_server.lexicon import words
from windtunnel.model_server.names import mask_quoted
from windtunnel.model_server.numbers import tidy
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.times import SECONDS, find_durations, find_times
from windtunnel.model_server.toolspec import Param


def written_date(value: date, param: Param) -> str:
    """The date in the form that the description shows; ISO 8601 unless it shows another."""
    told = param.description.upper()
    for form, code in (
        ("DD/MM/YYYY", "%d/%m/%Y"),
        ("MM/DD/YYYY", "%m/%d/%Y"),
        ("DD.MM.YYYY", "%d.%m.%Y"),
        ("DD-MM-YYYY", "%d-%m-%Y"),
        ("YYYYMMDD", "%Y%m%d"),
        ("YYYY/MM/DD", "%Y/%m/%d"),
    ):
        if form in told:
            return value.strftime(code)
    return value.isoformat()


def _date(scope: Scope, param: Param, side: str) -> date | None:
    for area in scope.texts(param):
        dated = area.free(find_dates(mask_quoted(area.text), scope.today))
        if side == "to" or re.search(r"end|until|out|return|back", param.name):
            dated = [
                d
                for d in dated
                if re.search(r"\b(?:to|until|till|through|and|by)\s+(?:the\s+)?$", area.before(d))
            ] or dated
        if dated:
            area.use(dated[0].start, dated[0].end)
            return dated[0].value
    return _after_nights(scope, param)


def _after_nights(scope: Scope, param: Param) -> date | None:
    """The end of a stay from its start and length."""
    if not re.search(r"end|until|out|return|to", param.name):
        return None
    starts = [
        v for k, v in scope.assigned.items() if isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", v)
    ]
    for area in scope.areas:
        for length in find_durations(area.text):
            if starts and length.seconds >= SECONDS["d"]:
                return date.fromisoformat(starts[-1]) + timedelta(seconds=length.seconds)
    return None


def day(scope: Scope, param: Param, side: str) -> Any:
    found = _date(scope, param, side)
    return MISSING if found is None else written_date(found, param)


def _time(scope: Scope, param: Param) -> str | None:
    for area in scope.texts(param):
        times = find_times(mask_quoted(area.text))
        taken = area.take(times, lambda each: each.sure) or area.take(times)
        if taken is not None:
            return taken.text
    return None


def time_of_day(scope: Scope, param: Param, side: str) -> Any:
    found = _time(scope, param)
    if found is None:
        return MISSING
    if (
        re.search(r"\b\d{1,2}(?::\d\d)? ?[AaPp][Mm]\b", param.description)
        and "24" not in param.description
        and ":MM" not in param.description
    ):
        hour, minute = (int(part) for part in found.split(":"))
        return f"{(hour - 1) % 12 + 1}:{minute:02d} {'AM' if hour < 12 else 'PM'}"
    return found + ":00" if "HH:MM:SS" in param.description else found


def moment(scope: Scope, param: Param, side: str) -> Any:
    at = _time(scope, param)
    on = _date(scope, param, side)
    if on is None and at is None:
        return MISSING
    on = on or scope.today
    if at is None:
        return on.isoformat()
    told = param.description
    joint = " " if re.search(r"(?:YYYY-MM-DD|\d{4}-\d\d-\d\d) (?:HH|\d\d):", told) else "T"
    seconds = ":00" if re.search(r":SS|:\d\d:\d\d|ISO|iso", told) or param.format == "date-time" else ""
    return f"{on.isoformat()}{joint}{at}{seconds}"


def duration(scope: Scope, param: Param, side: str) -> Any:
    listed = set(words(param.name)) | set(words(param.description))
    own = [
        u
        for u in ("seconds", "minutes", "hours", "days", "nights", "weeks")
        if u in words(param.name) or u.rstrip("s") in words(param.name) or u[:3] in words(param.name)
    ]
    unit = (
        own[0]
        if own
        else next(
            (u for u in ("minutes", "seconds", "hours", "nights", "days", "weeks") if u in listed), "minutes"
        )
    )
    for area in scope.texts(param):
        if length := area.take(find_durations(mask_quoted(area.text))):
            if param.is_number:
                return tidy(round(length.seconds / SECONDS[unit[0]], 4))
            return area.text[length.start : length.end]
    return amount(scope, param, side) if param.required and param.is_number else MISSING
