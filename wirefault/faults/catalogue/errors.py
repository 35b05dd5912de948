"""Error replies to a try, in its link's form. Pure."""

from __future__ import annotations

from typing import Any

from wirefault.dialects.base import error_event, error_reply
from wirefault.dialects.http import Reply
from wirefault.dialects.json_values import as_text
from wirefault.dialects.registry import DIALECTS, MODEL_DIALECTS
from wirefault.faults.base import Try


def error_for(tried: Try, kind: str, **values: Any) -> Reply:
    """The error ``kind`` in the link's dialect, with a request id; ``values`` as for ``error_reply``.

    Raises ``NotInDialect``.
    """
    return error_reply(DIALECTS[tried.dialect], kind, id=request_id(tried), model=_model(tried), **values)


def error_event_for(tried: Try, kind: str, number: int = 0) -> bytes:
    """The error as an event of a model's stream, after that number of events. Raises ``NotInDialect``."""
    return error_event(MODEL_DIALECTS[tried.dialect], kind, number, model=_model(tried))


def _model(tried: Try) -> str:
    """The name of the requested model, from the body, or from the path where the dialect has it."""
    dialect = MODEL_DIALECTS.get(tried.dialect)
    in_path = dialect.read_request(tried.request).model if dialect else ""
    return as_text(tried.request.json_object().get("model")) or in_path or "the model"


def request_id(tried: Try) -> str:
    """A request id in the providers' style, determined by the seed."""
    return f"req_{int(tried.chance('request-id') * 2**48):012x}"
