"""What a field of an event has nearly always, and a line of the history therefore leaves out.

Whoever makes an event says all of its fields; a line has those that tell something, and a reader has the
rest again. What is usual is a part of the format: were it changed, lines of old runs would be misread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from pydantic import Field
from pydantic.fields import FieldInfo

_NAME = "event"


def usually(value: Any) -> Any:
    """For the annotation of a field: a line without it has this value. The field stays one to be given."""
    return Field(default_factory=list) if value == [] else Field(default=value)


@cache
def usual_values(kind: type) -> Mapping[str, Any]:
    """What a line of that kind of event may leave out, by field: never the event's own name."""
    annotations = get_type_hints(kind, include_extras=True)
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
        for hint in getattr(annotations[field.name], "__metadata__", ()):
            if isinstance(hint, FieldInfo):
                found[field.name] = hint.get_default(call_default_factory=True)
    return {name: value for name, value in found.items() if name != _NAME}


def dump_unusual(event: Any) -> str:
    """The event as a JSON object of what is not as usual, in the order of its fields."""
    usual = usual_values(event.__class__)
    told = {name: value for name, value in vars(event).items() if name not in usual or usual[name] != value}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=_all_fields)


def _all_fields(part: object) -> dict[str, Any]:
    """A part of an event, which has no line of its own, is told whole."""
    if not is_dataclass(part):
        raise TypeError(f"{type(part).__name__} is no part of an event")
    return {field.name: getattr(part, field.name) for field in fields(part)}
