"""Times of day and durations in English."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from windtunnel.model_server.numbers import NUMBER_WORDS, parse_number

_HOURS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HOUR = rf"(?:\d{{1,2}}|{_HOURS})"
_MINUTES = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25}
_HALF = r"(?P<half>a\.?m\b\.?|p\.?m\b\.?|in the (?:morning|afternoon|evening)|at night|o['’]clock)"
_TIMES = re.compile(
    rf"\b(?P<part>half|(?:a )?quarter|\d{{1,2}}|five|ten|twenty|twenty-five)(?: minutes)? "
    rf"(?P<side>past|to|after|before) (?P<of>{_HOUR})\b(?:\s*{_HALF})?"
    rf"|(?:\b|(?<=\dT))(?P<h>\d{{1,2}})(?::|h|(?<=at \d)\.|(?<=at \d\d)\.|\.(?=\d\d\s*[ap]\.?m))"
    rf"(?P<m>[0-5]\d)(?::[0-5]\d)?(?![\d%])(?:\s*{_HALF})?"
    rf"|\b(?P<hour>{_HOUR})\s*{_HALF.replace('half', 'half3').replace('P<', 'P<')}(?:\s+(?P<late>in "
    rf"the (?:morning|afternoon|evening)|at night))?"
    r"|\b(?P<noon>noon|midday|midnight)\b"
    r"|\b(?P<h24>[01]?\d|2[0-3])h\b"
    rf"|\b(?:at|@|from|by|until|till)\s+(?P<bare>{_HOUR})\b(?![\d:.,%/-]*\d)(?!\s*(?:[ap]\.?m\b"
    rf"|in the (?:morning|afternoon|evening)|o['’]clock|at night))(?!\s*(?:%|percent|degrees"
    rf"|people|persons|guests|[a-z]+s\b|st|nd|rd|th))".replace("(?P<half>", "(?P<half0>", 1).replace(
        "(?P<half>", "(?P<half1>", 1
    ),
    re.IGNORECASE,
)
_DURATION = re.compile(
    rf"\b(?P<n>\d+(?:\.\d+)?|half an?|an? half|an?|a couple of|{NUMBER_WORDS[2:-2]})[\s-]+(?P<unit>seconds?"
    rf"|secs?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|months?)\b"
    r"(?P<more> and a half)?(?:\s*(?:and\s+|,\s*)?(?P<n2>\d+)[\s-]+(?P<unit2>seconds?|minutes?|mins?))?",
    re.IGNORECASE,
)
_COMPACT = re.compile(r"\b(?P<n>\d+(?:\.\d+)?)\s?(?P<unit>s|sec|m|min|mins|h|hr|hrs)\b")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "n": 86400, "w": 604800, "mo": 2592000}


@dataclass(frozen=True)
class Timed:
    """A time of day; ``sure`` unless it is a bare "at 5", which is taken as 17:00 (at 8: 08:00)."""

    start: int
    end: int
    hour: int
    minute: int
    sure: bool = True

    @property
    def text(self) -> str:
        return f"{self.hour:02d}:{self.minute:02d}"


@dataclass(frozen=True)
class Duration:
    start: int
    end: int
    seconds: float


def _of_day(hour: int, half: str | None) -> int:
    half = (half or "").lower().replace(".", "")
    if half in ("pm", "in the afternoon", "in the evening") and hour < 12:
        return hour + 12
    if half == "at night" and 5 < hour < 12:
        return hour + 12
    if half in ("am", "in the morning", "at night") and hour == 12:
        return 0
    if half in ("o'clock", "o’clock") and 1 <= hour <= 6:
        return hour + 12
    return hour


def _read(match: re.Match[str]) -> Timed | None:
    group = match.groupdict()
    sure = True
    hour, minute = 0, 0
    if group["noon"]:
        hour = 0 if group["noon"].lower() == "midnight" else 12
    elif group["part"]:
        part = group["part"].lower().removeprefix("a ")
        minute = _MINUTES[part] if part in _MINUTES else int(part)
        hour = _of_day(int(parse_number(group["of"])), group["half0"] or "o'clock")
        if group["side"].lower() in ("to", "before"):
            hour, minute = (hour - 1) % 24, 60 - minute
    elif group["h"]:
        hour, minute = _of_day(int(group["h"]), group["half1"]), int(group["m"])
    elif group["hour"]:
        half = group["late"] if group["late"] else group["half3"]
        hour = _of_day(int(parse_number(group["hour"])), half)
    elif group["h24"]:
        hour = int(group["h24"])
    else:
        hour, sure = int(parse_number(group["bare"])), False
        hour += 12 if 1 <= hour <= 6 else 0
    if hour > 23 or minute > 59:
        return None
    start = match.start("bare") if group["bare"] else match.start()
    return Timed(start, match.end(), hour, minute, sure)


@lru_cache(maxsize=2048)
def find_times(text: str) -> tuple[Timed, ...]:
    """The times of day named in the text, in order."""
    read = (_read(match) for match in _TIMES.finditer(text))
    return tuple([timed for timed in read if timed is not None])


def _seconds(number: str, unit: str) -> float:
    number = number.lower()
    scale = SECONDS["mo" if unit.lower().startswith("mo") else unit[0].lower()]
    if number.startswith("half") or number == "a half":
        return scale / 2
    if number in ("a", "an"):
        return scale
    return (2 if number.startswith("a couple") else parse_number(number)) * scale


@lru_cache(maxsize=2048)
def find_durations(text: str) -> tuple[Duration, ...]:
    """Lengths of time (``90 minutes``, ``an hour and a half``, ``10-minute``), in order."""
    found: list[Duration] = []
    for match in [*_DURATION.finditer(text), *_COMPACT.finditer(text)]:
        group = match.groupdict()
        seconds = _seconds(group["n"], group["unit"])
        if group.get("more"):
            seconds += _seconds("half", group["unit"])
        if group.get("n2"):
            seconds += _seconds(group["n2"], group["unit2"])
        if not any(other.start < match.end() and match.start() < other.end for other in found):
            found.append(Duration(match.start(), match.end(), seconds))
    return tuple(sorted(found, key=lambda duration: duration.start))
