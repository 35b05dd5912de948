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
from windtunnel.model_server.words import WORDS, any_of, words_of

_BAD, _GOOD, _NOT_DONE = (any_of(WORDS[name]) for name in ("bad", "good", "not_done"))
_ERROR_KEY = re.compile(WORDS["error_key"], re.IGNORECASE)
_SAYS, _STATES, _FLAGS = (
    frozenset(WORDS[f"{name}"]) for name in ("message_keys", "state_keys", "good_flags")
)
_COUNTED = ("affected", "modified", "matched", "count", "inserted", "changes")
_NO_ERROR: tuple[Any, ...] = (None, False, 0, "", "none", "None", "null", "0", [], {})
_HEAD = 400  # characters in which an error would say so


@dataclass(frozen=True)
class Failure:
    """``unknown_effect``: a write may or may not have happened."""

    message: str
    unknown_effect: bool


@dataclass(frozen=True)
class Result:
    """What a call gave: ``data``, or ``failure`` where that is set."""

    data: Any = None
    failure: Failure | None = None


NO_ANSWER = Result(failure=Failure("the tool gave no answer", True))


def read_result(content: object, writes: bool, known: bool = False) -> Result:
    """Reads a tool message's content, JSON or plain text. ``writes``: only an acknowledgement will do.

    ``known``: whoever asks knows the tool's results, so that a text in one may hold any words.
    """
    text = content_text(content).strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = text
    if isinstance(data, Mapping):
        reason, bad = _reason_in(data) or ("" if known else _doubt(data, writes)), False
    elif isinstance(data, str):
        reason, head = data.strip() or "the tool's answer is empty", data.strip()[:_HEAD]
        bad = not head or bool(_BAD.search(head)) or (writes and not _GOOD.search(head))
    else:  # a list, a number, a boolean or null
        rows = [row for row in data if isinstance(row, Mapping)] if isinstance(data, list) else []
        refused = any(_reason_in(row) or {"loc", "msg"} <= row.keys() for row in rows)
        reason, bad = text, refused or data is None or (writes and not (data is True or rows))
    failed = bool(reason) if isinstance(data, Mapping) else bad
    return (
        Result(failure=_failure(reason, data if isinstance(data, Mapping) else {}))
        if failed
        else Result(data)
    )


def _reason_in(data: Mapping[str, Any]) -> str:
    """Why this object reports a failure, or the empty text."""
    for key, value in data.items():
        if _ERROR_KEY.fullmatch(key) and value not in _NO_ERROR:
            return _message_of(data, value)
        if key.lower() in _FLAGS and (value is False or value in ("false", "no")):
            return _message_of(data, f"{key} is {value}")
        if key.lower() in _STATES and _is_bad_state(value, len(data)):
            return _message_of(data, f"{key} is {value}")
    said = " ".join(str(v) for key, v in data.items() if key.lower() in _SAYS and isinstance(v, str | list))
    known = {
        key
        for key, value in data.items()
        if key.lower() not in _SAYS | _STATES | _FLAGS and value not in _NO_ERROR
    }
    # an object that is little but a message is a server's way of saying no; one with data may quote anything
    if not data or (not known and _BAD.search(said)):
        return said or "the tool's answer is empty"
    nested = (
        [value for value in data.values() if isinstance(value, Mapping) and value] if len(data) <= 2 else []
    )
    return next((reason for value in nested if (reason := _reason_in(value))), "")


def _doubt(data: Mapping[str, Any], writes: bool) -> str:
    """Why this object of a tool that nobody knows may report a failure, or the empty text."""
    if all(value is None for value in data.values()):
        return "the tool's answer is empty"
    texts = " ".join(value for value in data.values() if isinstance(value, str))
    if all(isinstance(value, str | None) for value in data.values()) and _BAD.search(texts[:_HEAD]):
        return texts
    idle = [
        key for key, value in data.items() if value is False or (value == 0 and not isinstance(value, str))
    ]
    nothing = (
        key for key in idle if any(_GOOD.fullmatch(word) or word in _COUNTED for word in words_of(key))
    )
    return next((f"{key} is {data[key]}" for key in nothing), "") if writes else ""


def _is_bad_state(value: object, size: int) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 400 <= value < 600 or value < 0
    return isinstance(value, str) and size <= 5 and bool(_BAD.search(value.replace("_", " ")))


def _message_of(data: Mapping[str, Any], error: object) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("code") or json.dumps(error, ensure_ascii=False))
    said = " ".join(value for key, value in data.items() if key.lower() in _SAYS and isinstance(value, str))
    return f"{error} {said}".strip() if error is not True else said or "an error"


def _failure(message: str, data: Mapping[str, Any]) -> Failure:
    """The effect is what the error says of it; else it is known where the words say that nothing was done."""
    error = data.get("error")
    nested = error if isinstance(error, Mapping) else {}
    effect = str(nested.get("side_effect") or data.get("side_effect") or "").lower()
    words = " ".join([message, *(str(value) for value in (*data.values(), *nested.values()))])
    return Failure(message[:300], effect != "none" if effect else not _NOT_DONE.search(words))
