"""Arguments with a form of their own: dates, times, references, numbers, languages, currencies, units."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.lexicon import (
    COUNTRY_MONEY,
    CURRENCIES,
    LANGUAGE_NAMES,
    LANGUAGE_SIGNS,
    UNITS,
    attributes,
    stem,
    words,
)
from windtunnel.model_server.names import (
    EMAIL,
    IDENTIFIER,
    PHONE,
    URL,
    Span,
    find_languages,
    find_quoted,
    mask_quoted,
)
from windtunnel.model_server.numbers import Number, find_numbers, plain, tidy
from windtunnel.model_server.times import SECONDS, find_durations, find_times
from windtunnel.model_server.toolspec import Param, Tool

MISSING: Any = object()


@dataclass
class Scope:
    """Everything that arguments for one step are taken from; ``areas`` are the step's own text, then wider ones."""

    areas: list[Area]
    tool: Tool
    today: date
    past: Sequence[Finding] = ()
    refers: bool = False
    assigned: dict[str, Any] = field(default_factory=dict)
    leaned: bool = False

    def texts(self, param: Param) -> Iterator[Area]:
        """Where to look for that parameter: an optional one is only what the step itself says."""
        yield from self.areas if param.required else self.areas[:1]


def pattern_spans(pattern: re.Pattern[str], text: str) -> list[Span]:
    return [Span(m.start(), m.end(), m.group()) for m in pattern.finditer(text)]


def matching(scope: Scope, param: Param, pattern: re.Pattern[str]) -> Any:
    for area in scope.texts(param):
        if span := area.take(pattern_spans(pattern, area.text)):
            return span.value
    return MISSING


def email(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, EMAIL)


def phone(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, PHONE)


def url(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, URL)


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
        taken = area.take(find_times(mask_quoted(area.text)))
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


_NUMBERED = (
    r"\b{}s?\s+(?:number\s+|no\.?\s+|id\s+|code\s+|reference\s+|with id\s+)?#?([A-Za-z]{{0,4}}-?\d[\w-]*)"
)


def identifier(scope: Scope, param: Param, side: str) -> Any:
    nouns = [word for word in words(param.name) if word not in ("id", "number", "no", "code", "ref", "key")]
    for area in scope.texts(param):
        text = mask_quoted(area.text)
        for noun in nouns:
            spans = [
                Span(m.start(1), m.end(1), m[1])
                for m in re.finditer(_NUMBERED.format(re.escape(noun)), text, re.IGNORECASE)
            ]
            if span := area.take(spans):
                return _as_kind(span.value, param)
        if span := area.take(_identifiers(area, scope, nouns)):
            return _as_kind(span.value, param)
        if span := area.take(_symbols(text, nouns)):
            return span.value
        if param.required and (number := area.take(_plain_numbers(area, scope.today))):
            return int(number.value) if param.is_number else area.text[number.start : number.end]
        if param.required and (quoted := area.take(find_quoted(area.text))):
            return quoted.value
    return MISSING


def _identifiers(area: Area, scope: Scope, nouns: Sequence[str]) -> list[Span]:
    text = area.text
    dated = find_dates(mask_quoted(text), scope.today)
    spans = [
        s
        for s in pattern_spans(IDENTIFIER, text)
        if not any(d.start < s.end and s.start < d.end for d in dated)
    ]
    spans = [s for s in spans if not any(e.start() <= s.start < e.end() for e in EMAIL.finditer(text))]
    wanted = {stem(noun) for noun in nouns}
    return sorted(
        spans,
        key=lambda s: (
            not wanted & {stem(w) for w in words(text[max(0, s.start - 24) : s.start])}
            and not any(s.value.lower().startswith(n[:3]) for n in nouns)
        ),
    )


def _symbols(text: str, nouns: Sequence[str]) -> list[Span]:
    if not {"symbol", "ticker", "stock", "airport", "iata", "origin", "destination"} & set(nouns):
        return []
    return [
        s
        for s in pattern_spans(re.compile(r"\b[A-Z]{2,5}\b"), text)
        if s.value not in ("USD", "EUR", "GBP", "I")
    ]


def _as_kind(text: str, param: Param) -> Any:
    digits = re.sub(r"\D", "", text)
    if param.kind == "integer" and digits:
        return int(digits)
    return text.lstrip("#") if text.startswith("#") and "#" not in param.description else text


def _plain_numbers(area: Area, today: date) -> list[Number]:
    """Numbers that are no part of a date, time, duration, reference or quoted text."""
    text = mask_quoted(area.text)
    busy: list[Any] = [
        *find_dates(text, today),
        *(t for t in find_times(text) if t.sure),
        *pattern_spans(IDENTIFIER, text),
        *pattern_spans(EMAIL, text),
    ]
    return [n for n in find_numbers(text) if not any(b.start < n.end and n.start < b.end for b in busy)]


def amount(scope: Scope, param: Param, side: str) -> Any:
    wanted = {stem(w) for w in words(param.name)} | {a for w in words(param.name) for a in attributes(w)}
    for area in scope.texts(param):
        numbers = area.free(_plain_numbers(area, scope.today))
        near = [n for n in numbers if wanted & _around(area.text, n)]
        if param.name in (
            "limit",
            "max_results",
            "count",
            "top",
            "n",
            "max",
            "top_k",
            "num_results",
            "page_size",
        ):
            near = [
                n
                for n in numbers
                if re.search(
                    r"\b(?:top|first|last|up to|at most|limit(?:ed)?(?: to| of)?|maximum(?: of)?|latest)\s+$",
                    area.before(n),
                )
                or (param.required and n in numbers)
                or re.match(r"\s+(?:results?|items?|hits|entries|options)", area.text[n.end :])
            ]
        people = {
            "people",
            "persons",
            "guests",
            "party",
            "size",
            "seats",
            "passengers",
            "guest",
            "covers",
            "diners",
        } & set(words(param.name))
        if people:
            near = [
                n
                for n in numbers
                if re.match(
                    r"\s+(?:people|persons|guests|adults|of us|passengers|seats|diners|friends)",
                    area.text[n.end :],
                )
                or re.search(r"\b(?:for|of)\s+$", area.before(n))
            ] or near
        chosen = (near or (numbers if param.required else []))[:1]
        if chosen:
            area.use(chosen[0].start, _money_end(area.text, chosen[0].end))
            value = tidy(chosen[0].value)
            return value if param.is_number else plain(value)
    return _earlier_number(scope, param)


def _around(text: str, number: Number) -> set[str]:
    near = (
        words(text[max(0, number.start - 22) : number.start])[-3:]
        + words(text[number.end : number.end + 18])[:2]
    )
    found = {stem(w) for w in near} | {a for w in near for a in attributes(w)}
    return found | ({"percent", "level"} if text[number.end : number.end + 1] == "%" else set())


def _money_end(text: str, end: int) -> int:
    match = re.match(r"\s*(?:%|[$€£¥]|percent\b)", text[end:])
    return end + match.end() if match else end


def _earlier_number(scope: Scope, param: Param) -> Any:
    if not param.required:
        return MISSING
    for finding in reversed(scope.past):
        for value in finding.values:
            if value.is_number:
                scope.leaned = True
                return value.value if param.is_number else str(value.value)
    return MISSING


def year(scope: Scope, param: Param, side: str) -> Any:
    for area in scope.texts(param):
        if span := area.take(
            pattern_spans(re.compile(r"\b(?:1[89]|20|21)\d\d\b(?![-/])"), mask_quoted(area.text))
        ):
            return int(span.value) if param.is_number else span.value
    return MISSING


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


def _code_wanted(param: Param) -> bool:
    told = param.description
    if re.search(
        r"\bname\b|in English|e\.g\.?,? ['\"]?(?:English|French|German|Spanish)|such as ['\"]?(?:English|French|German)|like ['\"]?(?:English|French)",
        told,
    ):
        return bool(re.search(r"\bISO\b|639", told)) and "name" not in words(param.name)
    return bool(
        re.search(
            r"\bISO\b|639|\bcodes?\b|(?:e\.g\.?,?|like|such as|example:?)\W*[a-z]{2}\b|['\"`(][a-z]{2}['\"`),]",
            told,
        )
    ) or "code" in words(param.name)


def written_language(code: str, param: Param) -> str:
    """The language as the parameter wants it: a value of its enum, an ISO code or a name."""
    for value in param.enum:
        if str(value).lower() in (code, LANGUAGE_NAMES.get(code)) or str(value).lower().split("-")[0] == code:
            return str(value)
    return code if _code_wanted(param) else LANGUAGE_NAMES.get(code, code).capitalize()


def language(scope: Scope, param: Param, side: str) -> Any:
    for area in scope.texts(param):
        spans = area.free(find_languages(area.text)) or _codes_in(area)
        chosen = [s for s in spans if _language_side(area, s, len(spans)) == side or not side]
        if chosen:
            area.use(chosen[0].start, chosen[0].end)
            return written_language(chosen[0].value, param)
    if side != "from" or not param.required:
        return MISSING
    auto = [str(v) for v in param.enum if str(v).lower() in ("auto", "detect", "automatic")]
    if auto or re.search(r"\bauto\b", param.description):
        return auto[0] if auto else "auto"
    return written_language(_guessed(scope), param)


def _codes_in(area: Area) -> list[Span]:
    return [
        Span(m.start(1), m.end(1), m[1].lower())
        for m in re.finditer(r"\b(?:from|to|into)\s+([a-zA-Z]{2})\b", mask_quoted(area.text))
        if m[1].lower() in LANGUAGE_NAMES
    ]


def _language_side(area: Area, span: Span, count: int) -> str:
    before = area.before(span)
    if re.search(r"\b(?:from|in the|the|original|source)\s+(?:the\s+)?$", before) or re.match(
        r"\s+(?:word|phrase|sentence|text|expression|message|for\b)", area.text[span.end :]
    ):
        return "from" if not re.search(r"\b(?:to|into)\s+$", before) else "to"
    return "to"


def _guessed(scope: Scope) -> str:
    """The language of the text to translate, by its common words; English if they do not tell."""
    quoted = [span.value for area in scope.areas for span in find_quoted(area.text)]
    earlier = [str(value.value) for finding in scope.past for value in finding.values]
    texts = [
        *quoted,
        *(str(v) for v in scope.assigned.values() if len(str(v)) > 3),
        *(earlier if scope.refers else []),
    ]
    found = {
        code: sum(word in signs for text in texts[:1] for word in words(text))
        for code, signs in LANGUAGE_SIGNS.items()
    }
    best = max(found, key=lambda code: found[code])
    return best if found[best] else "en"


def _paired(scope: Scope, param: Param, side: str, spans_in: Any) -> str | None:
    """One of a pair like "100 dollars to euros": what stands by the number is the first of it."""
    for area in scope.texts(param):
        spans: list[Span] = area.free(spans_in(area.text))
        to = [
            s
            for s in spans
            if re.search(r"\b(?:to|into|in|as|many|much)\s+(?:the\s+)?(?:\w+\s+)?$", area.before(s))
            and not re.search(r"\d\s*$", area.before(s))
        ]
        beside = [
            s
            for s in spans
            if re.search(rf"(?:\d|\b(?:{_NUMBER_WORD}))[\s-]*$", area.before(s))
            or re.match(r"\s?\d", area.text[s.end :])
            or re.search(r"\bfrom\s+$", area.before(s))
        ]
        if side == "to":
            chosen = [s for s in to if s not in beside] or [s for s in spans if s not in beside]
        else:
            chosen = beside or [s for s in spans if s not in to] or ([] if side else spans)
        if chosen:
            area.use(chosen[0].start, chosen[0].end)
            return chosen[0].value
    return None


_NUMBER_WORD = (
    "one|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred|thousand|million|an?"
)


def find_currencies(text: str) -> list[Span]:
    """Currencies of the text (names, codes, signs), each as its ISO code."""
    masked = mask_quoted(text)
    found = []
    for match in re.finditer(r"(?:([A-Za-z]+(?: Kong| Zealand)?) )?\b([A-Za-z]{3,9})\b|[$€£¥₹]", masked):
        word = (match[2] or match.group()).lower()
        if word in CURRENCIES and (word != "try" or "TRY" in match.group()):
            country = (match[1] or "").lower()
            start = match.start() if country in COUNTRY_MONEY or not match[2] else match.start(2)
            found.append(Span(start, match.end(), COUNTRY_MONEY.get(country, CURRENCIES[word])))
        elif match[1] and match[1].lower() in CURRENCIES:
            found.append(Span(match.start(1), match.end(1), CURRENCIES[match[1].lower()]))
    return found


def find_units(text: str) -> list[Span]:
    """Units of measure named in the text."""
    masked = mask_quoted(text)
    spans = [
        Span(m.start(), m.end(), m.group())
        for m in re.finditer(r"km/h|m/s|(?<=\d)[a-zA-Z]{1,3}\b|°[CF]|\b[A-Za-z]{2,}\b", masked)
    ]
    spans += [
        Span(m.start(1), m.end(1), m[1]) for m in re.finditer(r"(?:\d\s|\bto |\bin )([mgltCFK])\b", masked)
    ]
    return sorted(
        (s for s in spans if s.value.lower() in UNITS and s.value not in ("in", "I")), key=lambda s: s.start
    )


def currency(scope: Scope, param: Param, side: str) -> Any:
    code = _paired(scope, param, side, find_currencies)
    if code is None:
        return MISSING
    return next((value for value in param.enum if str(value).upper() == code), code)


def unit(scope: Scope, param: Param, side: str) -> Any:
    said = _paired(scope, param, side, find_units)
    if said is None:
        return MISSING
    name = UNITS[said.lower()]
    for value in param.enum:
        if UNITS.get(str(value).lower()) == name:
            return value
    shown = [
        w
        for w in re.findall(r"[A-Za-z°/]+", param.description)
        if w.lower() in UNITS and w.lower() not in ("in", "as", "a")
    ]
    short = shown and all(len(word) <= 3 for word in shown)
    if short:
        return {
            "kilometers": "km",
            "miles": "mi",
            "kilograms": "kg",
            "pounds": "lb",
            "meters": "m",
            "feet": "ft",
            "celsius": "C",
            "fahrenheit": "F",
            "grams": "g",
            "ounces": "oz",
            "inches": "in",
            "centimeters": "cm",
            "liters": "l",
            "gallons": "gal",
        }.get(name, said)
    return said
