"""Errors as Gemini's API gives them: the status, its name and a message. Pure.

Statuses and names are those of its error reference. A prompt that its filter stops is a reply, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from wirefault.dialects.errors import TOOL_USE_FAILED, ErrorForm

_BLOCKED = "PROHIBITED_CONTENT"
_INVALID = "INVALID_ARGUMENT"
GEMINI_ERRORS: Mapping[str, ErrorForm] = {
    "rate_limit": ErrorForm(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
    "quota": ErrorForm(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "RESOURCE_EXHAUSTED",
    ),
    "auth_error": ErrorForm(400, "API key not valid. Please pass a valid API key.", _INVALID),
    "forbidden": ErrorForm(403, "The caller does not have permission", "PERMISSION_DENIED"),
    "not_found": ErrorForm(
        404,
        "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call "
        "ListModels to see the list of available models and their supported methods.",
        "NOT_FOUND",
    ),
    "server_error": ErrorForm(500, "An internal error has occurred. Please retry.", "INTERNAL"),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "The service is currently unavailable.", "UNAVAILABLE"),
    "overloaded": ErrorForm(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"),
    "context_length": ErrorForm(
        400,
        "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).",
        _INVALID,
    ),
    "tool_use_failed": ErrorForm(400, TOOL_USE_FAILED + " {failed_generation}", _INVALID),
    "content_filter": ErrorForm(200, "", _BLOCKED),
}
_NAME_OF = {
    400: _INVALID,
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_STATUS_OF = {name: status for status, name in _NAME_OF.items()}


def gemini_error(type: str, message: str, **fields: Any) -> dict[str, Any]:
    """The body of an error. ``type``: a name of the API's, or the phrase of a status in snake case."""
    if type == _BLOCKED:
        return {"promptFeedback": {"blockReason": type}}
    status = _STATUS_OF.get(type) or _status_called(type)
    return {
        "error": {"code": status, "message": message, "status": _NAME_OF.get(status, "UNKNOWN"), **fields}
    }


def _status_called(phrase: str) -> int:
    """The status that a phrase in snake case names; 500 if there is none."""
    names = {status.phrase.lower().replace(" ", "_"): status.value for status in HTTPStatus}
    digits = phrase.rpartition("_")[2]
    return names.get(phrase, int(digits) if digits.isdecimal() else 500)
