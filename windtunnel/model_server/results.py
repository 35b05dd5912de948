"""What a tool answered, read from the text of its message: data, or a failure. Pure.

What cannot be told from an error is one: a reader that takes a refusal for success reports what never was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects.conversation import content_text
from windtunnel.dialects.json_values import as_object, as_objects, parsed
from windtunnel.model_server.language import PATTERNS, listed

_SAYS, _MESSAGES, _STATES, _FLAGS = map(listed, ("saying_keys", "message_keys", "state_keys", "good_flags"))
_NO_ERROR: tuple[Any, ...] = (None, False, 0, "", "none", "None", "null", "0", [], {})
_HEAD = 400  # characters in which an error would say so


@dataclass(frozen=True)
class Failure:
    """``unknown_effect``: a write may or may not have happened."""

    message: str
    unknown_effect: bool


def read_result(content: object, writes: bool, known: bool = False) -> Any | Failure:
    """The data in a tool message's content, JSON or plain text. ``writes``: only an acknowledgement will do.

    ``known``: whoever asks knows the tool's results, so that a text in one may hold any words.
    """
    text = content_text(content).strip()
    try:
        data = parsed(text)
    except ValueError:
        data = text
    reason = _refusal(data, text)
    if not reason and (isinstance(data, str) or not known) and _is_doubtful(data, writes):
        reason = text
    return _failure(reason, as_object(data)) if reason else data


def _refusal(data: Any, text: str) -> str:
    """Why this result reports a failure, or the empty text."""
    if isinstance(data, Mapping):
        return _reason_in(data)
    if data in (None, ""):
        return "the tool gave no answer"
    refused = any(_reason_in(row) or {"loc", "msg"} <= row.keys() for row in as_objects(data))
    return text if refused or (isinstance(data, str) and PATTERNS["bad"].search(_spaced(data))) else ""


def _reason_in(data: Mapping[str, Any]) -> str:
    for key, value in data.items():
        if PATTERNS["error_key"].fullmatch(key) and value not in _NO_ERROR:
            return _message_of(data, value)
        plain = key.lower().strip("_")
        negative = plain in _FLAGS and (value is False or value in ("false", "no"))
        if negative or (plain in _STATES and _is_bad_state(value, len(data))):
            return _message_of(data, f"{key} is {value}")
    said = " ".join(str(value) for value in _under(data, _SAYS).values())
    # an object that is little but a message is a server's way of saying no; one with data may quote anything
    if not data or (_under(data, _SAYS | _STATES | _FLAGS) == dict(data) and PATTERNS["bad"].search(said)):
        return said or "the tool gave no answer"
    nested = [value for value in as_objects([*data.values()]) if value and len(data) <= 2]
    return next(filter(None, map(_reason_in, nested)), "")


def _is_doubtful(data: Any, writes: bool) -> bool:
    """Whether this result of a tool that nobody knows may be a failure."""
    if isinstance(data, Mapping):
        said = _spaced(" ".join(value for value in data.values() if isinstance(value, str)))
        only_text = all(isinstance(value, str | None) for value in data.values())
        beside = data.keys() - _under(data, _MESSAGES | _STATES | _FLAGS).keys()
        bare = writes or all(data[key] in _NO_ERROR for key in beside)
        unproven = bare and _under(data, _MESSAGES) and not PATTERNS["good"].search(said)
        nothing = writes and any(value is False or value == 0 for value in data.values())
        return bool((only_text and (not said or PATTERNS["bad"].search(said))) or unproven or nothing)
    if isinstance(data, str):
        # a sentence without a figure may say anything: "Recipe was removed by its author."
        shows = len(data) > _HEAD / 2 or re.search(r"\d|:|\n", data) or len(data.split()) <= 2
        return not (PATTERNS["good"].search(_spaced(data)) if writes else shows)
    return writes and not (data is True or (isinstance(data, list) and data))


def _under(data: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """What stands under keys of these names, and is something."""
    named = [key for key in data if key.lower().strip("_") in names]
    return {key: data[key] for key in named if data[key] is not None}


def _spaced(text: str) -> str:
    """The head of a text, its camel-case words apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text[:_HEAD])


def _is_bad_state(value: object, size: int) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 400 <= value < 600 or value < 0
    return isinstance(value, str) and size <= 5 and bool(PATTERNS["bad"].search(_spaced(value)))


def _message_of(data: Mapping[str, Any], error: object) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("code") or json.dumps(error, ensure_ascii=False))
    said = " ".join(value for value in _under(data, _SAYS).values() if isinstance(value, str))
    return f"{error} {said}".strip() if error is not True else said or "an error"


def _failure(message: str, data: Mapping[str, Any]) -> Failure:
    """The effect is what the error says of it; else it is known where the words say that nothing was done."""
    nested = as_object(data.get("error"))
    effect = str(nested.get("side_effect") or data.get("side_effect") or "").lower()
    words = " ".join([message, *(str(value) for value in (*data.values(), *nested.values()))])
    return Failure(message[:300], effect != "none" if effect else not PATTERNS["not_done"].search(words))
