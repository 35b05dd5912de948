"""The fields of each event of a history, for the page that tells of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

from wirefault.history.events import Event
from wirefault.history.usual import usual_values


def history_rows() -> Iterator[str]:
    """A table in Markdown: which fields a line of each kind has, and what those have that it leaves out."""
    yield "| event | in every line | left out where it is |"
    yield "|---|---|---|"
    for kind in get_args(Event):
        usual = usual_values(kind)
        name = next(field.default for field in fields(kind) if field.name == "event")
        always = [f"`{field.name}`" for field in fields(kind) if field.name not in usual]
        left_out = [f"`{field}` {json.dumps(value, default=vars)}" for field, value in usual.items()]
        yield f"| `{name}` | {', '.join(always[:-1])} | {', '.join(left_out)} |"
