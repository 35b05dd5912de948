"""The scripted model's English (``words.yaml``): reads slots and evidence in prompts, and results. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from dateutil import parser

from wirefault.core.plain_data import read_yaml
from wirefault.dialects.conversation import content_text
from wirefault.dialects.json_values import as_object, as_objects, parsed

_FILE = Path(__file__).with_name("words.yaml")
WORDS: Mapping[str, Any] = read_yaml(_FILE.read_text(encoding="utf-8"), str(_FILE))


def expanded(pattern: str) -> str:
    """Replace the names in braces by the patterns that they name."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: expanded(WORDS["patterns"][name[1]]), pattern)


_ANY_OF = {name: rf"\b(?:{'|'.join(words)})\b" for name, words in WORDS["any_of"].items()}
_WRITTEN = {**{name: expanded(pattern) for name, pattern in WORDS["patterns"].items()}, **_ANY_OF}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _WRITTEN.items()}
UNREADABLE = (ValueError, OverflowError)
SLOTS: Mapping[str, str] = {kind: expanded(pattern) for kind, pattern in WORDS["slots"].items()}
_KINDS = {kind: re.compile(expanded(pattern)) for kind, pattern in WORDS["evidence"].items()}


def listed(name: str) -> frozenset[str]:
    """Return the words under that name in ``words.yaml``."""
    return frozenset(WORDS[name].split())


def stem(word: str) -> str:
    """Strip the endings in which a tool's name and a sentence differ."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    word = re.sub(r"(?<=..)ies$|(?<=...)(?:ing|e[ds]|(?<!s)s)$", lambda end: "y" * (end[0] == "ies"), word)
    return word.removesuffix("e") if len(word) > 3 else word


@cache
def stems(words: str) -> frozenset[str]:
    """Return the stems of the words in a text."""
    return frozenset(stem(word) for word in re.findall(r"[\w'’]+", words))


def words_of(name: str) -> list[str]:
    """Split a name of any style into words: ``getOrderStatus``, ``get-order``, ``orders.get``."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+", name)
    return [word.casefold() for word in words]


def name_stems(name: str) -> frozenset[str]:
    """Return the stems of the words of a name."""
    return frozenset(map(stem, words_of(name)))


def verb_class(word: str) -> str:
    """Return ``read``, ``create``, ``delete``, ``send`` or ``change``; empty for an unknown verb."""
    return next((kind for kind in WORDS["verbs"] if stem(word) in stems(WORDS["verbs"][kind])), "")


def bare(sentence: str) -> str:
    """Strip polite phrases around a sentence, and its final mark."""
    return PATTERNS["trailing"].sub("", PATTERNS["polite"].sub("", sentence.strip()))


def today_of(system: str) -> date | None:
    """Return the system message's today: the first date with a year in it."""
    dates = (match[0] for match in PATTERNS["date"].finditer(system) if re.search(r"\d{4}", match[0]))
    return next((_day(text.casefold(), None) for text in dates), None)


def read_slot(kind: str, text: str, today: date | None, languages: Mapping[str, str]) -> Any:
    """Parse a slot's text. Raises one of ``UNREADABLE`` for a text of another kind."""
    words = text.strip().casefold().removeprefix("the ")
    unquoted = text.strip()[1:-1] if PATTERNS["quoted"].fullmatch(text.strip()) else text.strip()
    if kind in ("date", "time") and not PATTERNS[kind].fullmatch(words):
        raise ValueError(text)
    if kind == "date":
        return _day(words, today).isoformat()
    if kind == "time":
        clock = {"noon": "12:00", "midnight": "00:00"}.get(words) or re.sub(r"(?<=\d)\.(?=\d)", ":", words)
        return f"{parser.parse(clock, default=datetime(2000, 1, 1)):%H:%M}"
    if kind == "expression":
        for spoken, signs in WORDS["spoken"]:
            unquoted = re.sub(spoken, signs, unquoted, flags=re.IGNORECASE)
        if not PATTERNS["arithmetic"].fullmatch(unquoted):
            raise ValueError(text)
    if kind == "places":
        return re.split(r",? and (?:in )?|, (?:in )?", text)
    # "it" and "the results" refer to something else
    stands_for_results = kind == "text" and re.fullmatch(SLOTS["results"], text, re.IGNORECASE)
    if stands_for_results or (kind == "language" and words not in languages):
        raise ValueError(text)
    return languages[words] if kind == "language" else unquoted.removeprefix("#" * (kind == "id"))


def _day(words: str, today: date | None) -> date:
    """Parse a day; without a year it is the next such day, which needs ``today``."""
    has_year = re.search(r"\d{4}", words) is not None
    if today is None and not has_year:
        raise ValueError(words)
    start = datetime.combine(today or date(2000, 1, 1), time())
    if words in WORDS["relative_days"]:
        return (start + timedelta(days=WORDS["relative_days"][words])).date()
    day: datetime = parser.parse(words, default=start)
    if day < start and not has_year:
        day = parser.parse(f"{words} {start.year + 1}", default=start)
    return day.date()


@dataclass(frozen=True)
class Evidence:
    """A piece of the prompt from ``start`` to ``end``, and its value."""

    kind: str
    value: str
    start: int
    end: int

    @property
    def number(self) -> float | int | None:
        """The value as a number; None if it is not one."""
        plain = re.sub(r"[$€£%, #]", "", self.value)
        whole = re.fullmatch(r"\d+(\.\d+)?", plain)
        return None if not whole else float(plain) if whole[1] else int(plain)


def gather(prompt: str, today: date | None) -> list[Evidence]:
    """Collect all evidence in the prompt, in order and without overlaps."""
    gathered: list[Evidence] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(blanked(prompt, gathered)):
            with suppress(*UNREADABLE):
                gathered.append(Evidence(kind, read_slot(kind, match[0], today, {}), *match.span()))
    return sorted(gathered, key=lambda piece: piece.start)


def blanked(text: str, pieces: Sequence[Evidence]) -> str:
    """Replace the evidence by null characters."""
    for piece in pieces:
        text = text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
    return text


_SAYS, _MESSAGES, _STATES, _FLAGS = map(listed, ("saying_keys", "message_keys", "state_keys", "good_flags"))
_NO_ERROR: tuple[Any, ...] = (None, False, 0, "", "none", "None", "null", "0", [], {})
_HEAD = 400  # characters; an error is recognised within them


@dataclass(frozen=True)
class Failure:
    """A failed tool call."""

    message: str
    unknown_effect: bool  # a write may or may not have happened


def read_result(content: object, writes: bool, known: bool = False) -> Any | Failure:
    """Return the data in a tool message's content, JSON or plain text, or a failure.

    A result that looks like an error is one: success must be sure. ``writes``: only an acknowledgement
    counts. ``known``: the caller knows the tool's results, so texts in them may have any words.
    """
    text = content_text(content).strip()
    try:
        data = parsed(text)
    except ValueError:
        data = text
    failed = _refuses(data) or ((isinstance(data, str) or not known) and _is_doubtful(data, writes))
    return _failure(as_object(data), text) if failed else data


def _refuses(data: Any) -> bool:
    """Return whether this result reports an error, or has no content."""
    if isinstance(data, list):
        return any(_refuses(row) or {"loc", "msg"} <= row.keys() for row in as_objects(data))
    if not isinstance(data, Mapping):
        return data in (None, "") or (isinstance(data, str) and _sounds("bad", data))
    for key, value in data.items():
        plain = key.lower().strip("_")
        negative = plain in _FLAGS and (value is False or value in ("false", "no"))
        error = PATTERNS["error_key"].fullmatch(key) and value not in _NO_ERROR
        bad_word = isinstance(value, str) and len(data) <= 5 and _sounds("bad", value)
        bad_code = isinstance(value, int) and (400 <= value < 600 or value < 0)
        if error or negative or (plain in _STATES and (bad_word or bad_code)):
            return True
    message = " ".join(str(value) for value in _under(data, _SAYS).values())
    # a refusal is an object with little more than a message; an object with data may quote anything
    little = _under(data, _SAYS | _STATES | _FLAGS) == dict(data)
    nested = [value for value in as_objects([*data.values()]) if value and len(data) <= 2]
    return not data or (little and _sounds("bad", message)) or any(map(_refuses, nested))


def _is_doubtful(data: Any, writes: bool) -> bool:
    """Return whether this result of an unknown tool may be a failure."""
    if isinstance(data, Mapping):
        text = " ".join(value for value in data.values() if isinstance(value, str))
        only_text = all(isinstance(value, str | None) for value in data.values())
        others = data.keys() - _under(data, _MESSAGES | _STATES | _FLAGS).keys()
        no_data = writes or all(data[key] in _NO_ERROR for key in others)
        unproven = no_data and _under(data, _MESSAGES) and not _sounds("good", text)
        nothing = writes and any(value is False or value == 0 for value in data.values())
        return bool((only_text and (not text or _sounds("bad", text))) or unproven or nothing)
    if isinstance(data, str):
        # a sentence without a figure may mean anything: "Recipe was removed by its author."
        has_data = len(data) > _HEAD / 2 or re.search(r"\d|:|\n", data) or len(data.split()) <= 2
        return not (_sounds("good", data) if writes else has_data)
    return writes and not (data is True or (isinstance(data, list) and data))


def _under(data: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the entries with keys of these names, without null."""
    named = [key for key in data if key.lower().strip("_") in names]
    return {key: data[key] for key in named if data[key] is not None}


def _sounds(kind: str, text: str) -> bool:
    """Return whether the head of a text has one of the words of that kind, also within camel case."""
    return PATTERNS[kind].search(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text[:_HEAD])) is not None


def _failure(data: Mapping[str, Any], text: str) -> Failure:
    """Build the failure; its effect is known if the error has it or its words say that nothing was done."""
    nested = as_object(data.get("error"))
    effect = str(nested.get("side_effect") or data.get("side_effect") or "").lower()
    texts = [*_under(nested, _SAYS).values(), data.get("error"), *_under(data, _SAYS).values(), text]
    message = next((each for each in texts if each and isinstance(each, str)), "the tool gave no answer")
    return Failure(message[:300], effect != "none" if effect else not PATTERNS["not_done"].search(text))
