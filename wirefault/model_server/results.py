"""What a tool answered, read from the text of its message: data, or a failure. Pure.

What cannot be told from an error is one: a reader that takes a refusal for success reports what never was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.conversation import content_text
from wirefault.dialects.json_values import as_object, as_objects, parsed
from wirefault.model_server.language import PATTERNS, listed

_SAYS, _MESSAGES, _STATES, _FLAGS = map(listed, ("saying_keys", "message_keys", "state_keys", "good_flags"))
_NO_ERROR: tuple[Any, ...] = (None, False, 0, "", "none", "None", "null", "0", [], {})
_HEAD = 400  # characters in which an error would say so


@dataclass(frozen=True)
class Failure:
    """``unknown_effect``: a write may or may not have happened."""

    message: str
    unknown_effect: bool


def read_result(content: object, writes: bool, known: bool = False) -> Any | Failure:
    """The data in a tool message's content, JSON or plain text. ``writes``: only an acknowledgement will do;
    ``known``: whoever asks knows the tool's results, so that a text in one may hold any words."""
    text = content_text(content).strip()
    try:
        data = parsed(text)
    except ValueError:
        data = text
    failed = _refuses(data) or ((isinstance(data, str) or not known) and _is_doubtful(data, writes))
    return _failure(as_object(data), text) if failed else data


def _refuses(data: Any) -> bool:
    """Whether this result says that it is an error, or says nothing."""
    if isinstance(data, list):
        return any(_refuses(row) or {"loc", "msg"} <= row.keys() for row in as_objects(data))
    if not isinstance(data, Mapping):
        return data in (None, "") or (isinstance(data, str) and _sounds("bad", data))
    for key, value in data.items():
        plain = key.lower().strip("_")
        negative = plain in _FLAGS and (value is False or value in ("false", "no"))
        error = PATTERNS["error_key"].fullmatch(key) and value not in _NO_ERROR
        told_badly = isinstance(value, str) and len(data) <= 5 and _sounds("bad", value)
        coded_badly = isinstance(value, int) and (400 <= value < 600 or value < 0)
        if error or negative or (plain in _STATES and (told_badly or coded_badly)):
            return True
    said = " ".join(str(value) for value in _under(data, _SAYS).values())
    # an object that is little but a message is a server's way of saying no; one with data may quote anything
    little = _under(data, _SAYS | _STATES | _FLAGS) == dict(data)
    nested = [value for value in as_objects([*data.values()]) if value and len(data) <= 2]
    return not data or (little and _sounds("bad", said)) or any(map(_refuses, nested))


def _is_doubtful(data: Any, writes: bool) -> bool:
    """Whether this result of a tool that nobody knows may be a failure."""
    if isinstance(data, Mapping):
        said = " ".join(value for value in data.values() if isinstance(value, str))
        only_text = all(isinstance(value, str | None) for value in data.values())
        beside = data.keys() - _under(data, _MESSAGES | _STATES | _FLAGS).keys()
        bare = writes or all(data[key] in _NO_ERROR for key in beside)
        unproven = bare and _under(data, _MESSAGES) and not _sounds("good", said)
        nothing = writes and any(value is False or value == 0 for value in data.values())
        return bool((only_text and (not said or _sounds("bad", said))) or unproven or nothing)
    if isinstance(data, str):
        # a sentence without a figure may say anything: "Recipe was removed by its author."
        shows = len(data) > _HEAD / 2 or re.search(r"\d|:|\n", data) or len(data.split()) <= 2
        return not (_sounds("good", data) if writes else shows)
    return writes and not (data is True or (isinstance(data, list) and data))


def _under(data: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """What stands under keys of these names, and is something."""
    named = [key for key in data if key.lower().strip("_") in names]
    return {key: data[key] for key in named if data[key] is not None}


def _sounds(kind: str, text: str) -> bool:
    """Whether the head of a text has one of those words; a camel-case name has several."""
    return PATTERNS[kind].search(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text[:_HEAD])) is not None


def _failure(data: Mapping[str, Any], text: str) -> Failure:
    """The effect is what the error says of it; else it is known where the words say that nothing was done."""
    nested = as_object(data.get("error"))
    effect = str(nested.get("side_effect") or data.get("side_effect") or "").lower()
    told = [*_under(nested, _SAYS).values(), data.get("error"), *_under(data, _SAYS).values(), text]
    message = next((each for each in told if each and isinstance(each, str)), "the tool gave no answer")
    return Failure(message[:300], effect != "none" if effect else not PATTERNS["not_done"].search(text))
