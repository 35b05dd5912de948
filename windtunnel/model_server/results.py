"""What a tool answered, read from the text of its message: data or a failure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects.conversation import content_text

_FAILED_TEXT = re.compile(
    r"^\W*(?:\w+ )?(?:error|exception|traceback|failed|failure|fatal|cannot|could not|unable)\b"
    r"|\b\w+(?:Error|Exception)\b:|^HTTP(?:/[\d.]+)? [45]\d\d\b|^[45]\d\d [A-Z]\w+",
    re.IGNORECASE,
)
_BROKEN_LINK = re.compile(
    r"tim(?:ed|e)[ -]?out|connection (?:was )?(?:refused|reset|error|aborted|closed|lost)|deadline exceeded|"
    r"no (?:response|reply)|service unavailable|bad gateway|gateway timeout|internal "
    r"server error|unreachable",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"refused|unavailable|not found|invalid|missing|unknown (?:tool|argument|city|id)"
    r"|denied|forbidden|unauthori[sz]ed|"
    r"bad request|not sent|not created|rate.?limit|too many requests|no side effect|not "
    r"executed|\b4\d\d\b|\b503\b",
    re.IGNORECASE,
)
_STATUS_FAILED = ("error", "failed", "failure", "timeout", "unavailable")


@dataclass(frozen=True)
class Failure:
    """``unknown_effect``: a write may or may not have happened."""

    message: str
    unknown_effect: bool


@dataclass(frozen=True)
class Result:
    data: Any = None
    failure: Failure | None = None


NO_ANSWER = Result(failure=Failure("the tool gave no answer", True))


def parse_result(content: object) -> Result:
    """Reads a tool message's content, JSON or plain text."""
    text = content_text(content).strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _plain(text)
    if isinstance(data, str):
        return _plain(data)
    failure = _failure_in(data) if isinstance(data, dict) else None
    return Result(data=data, failure=failure)


def _plain(text: str) -> Result:
    broken = len(text) < 300 and _BROKEN_LINK.search(text)
    if not text or _FAILED_TEXT.search(text) or (broken and len(text) < 120):
        return Result(failure=Failure(text or "an empty answer", _is_unknown(text, "")))
    return Result(data=text)


def _failure_in(data: Mapping[str, Any]) -> Failure | None:
    error = data.get("error") or data.get("errors")
    if isinstance(error, Mapping):
        message = str(error.get("message") or error.get("code") or "an error")
        side_effect = str(error.get("side_effect") or data.get("side_effect") or "")
        return Failure(message, _is_unknown(f"{error.get('code', '')} {message}", side_effect))
    if error:
        extra = str(data.get("message") or data.get("detail") or "")
        message = f"{error} {extra}".strip() if error is not True else extra or "an error"
        return Failure(message, _is_unknown(message, str(data.get("side_effect") or "")))
    flags = [data.get("success"), data.get("ok")]
    status = str(data.get("status") or "").lower()
    if any(flag is False for flag in flags) or (status in _STATUS_FAILED and len(data) <= 4):
        message = str(
            data.get("message") or data.get("reason") or data.get("detail") or status or "it failed"
        )
        return Failure(message, _is_unknown(message, str(data.get("side_effect") or "")))
    return None


def _is_unknown(text: str, side_effect: str) -> bool:
    if side_effect:
        return side_effect.lower() != "none"
    return not _NOT_DONE.search(text)
