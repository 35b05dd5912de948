"""When two requests to a model ask for the same: their canonical form, and its digest. Pure."""

from __future__ import annotations

import json
from typing import Any

from wirefault.core.identity import body_digest, text_digest
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import parsed

_ID_NAMES = frozenset(("id", "call_id", "tool_call_id", "tool_use_id", "previous_response_id"))
# What a tool was given and what it gave, where a dialect has it as an object: an id in there is not a call's.
_TOOL_DATA = frozenset(("input", "args", "response"))
_MAX_DEPTH = 100


def canonical_request(request: Request) -> dict[str, Any]:
    """The request as JSON, without what differs from run to run though the same is asked.

    Without headers and query, which may hold a key; without the ``seed``, since that of a run draws its
    faults; ids of calls and replies, which models and clients draw by chance, are replaced by their order.
    """
    try:
        body = _with_numbered_ids(parsed(request.body), {}) if request.body else None
    except ValueError:
        body = f"no JSON: BLAKE2b {body_digest(request.body)}"
    if isinstance(body, dict):
        body.pop("seed", None)
    return {"method": request.method, "path": request.path, "body": body}


def request_key(canonical: dict[str, Any]) -> str:
    """A digest, hexadecimal: equal for equal canonical requests, in whatever order their keys stand."""
    return text_digest(json.dumps(canonical, sort_keys=True), size=16).hex()


def _with_numbered_ids(value: Any, numbers: dict[str, str], depth: int = 0) -> Any:
    """A copy in which the first id that occurs is ``id1``, wherever it stands; the next one ``id2``.

    Raises ``ValueError`` for what is nested too deep.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, list):
        return [_with_numbered_ids(item, numbers, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {}
    for name, item in sorted(value.items()):
        if name in _ID_NAMES and isinstance(item, str):
            item = numbers.setdefault(item, f"id{len(numbers) + 1}")
        elif not (name in _TOOL_DATA and isinstance(item, dict)):
            item = _with_numbered_ids(item, numbers, depth + 1)
        copy[name] = item
    return copy
