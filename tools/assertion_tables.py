"""Make the tables of the reference page of assertions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import PydanticUndefined

from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.assertions.registry import ASSERTIONS
from wirefault.experiments.figures import OF_EPISODES

_OF_ALL = ("turn", "episodes")


def assertion_rows() -> list[str]:
    """Return tables of assertions and measures, as lines of Markdown."""
    head = ["| assertion | parameters | meaning | needs |", "|---|---|---|---|"]
    measures = [f"| `{row.name}` | {row.meaning} | {row.needs} |" for row in OF_EPISODES.values()]
    title = ["", "## Measures of an episode", "", "| measure | meaning | needs |", "|---|---|---|"]
    return [*head, *map(_row, ASSERTIONS), *title, *measures]


def _row(kind: type[Assertion]) -> str:
    meaning = " ".join((kind.__doc__ or "").split())
    return f"| `{kind.name}` | {'; '.join(_parameters(kind)) or 'none'} | {meaning} | {kind.needs} |"


def _parameters(kind: type[Assertion]) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        if name in _OF_ALL:
            continue
        key = field.alias or name
        marks = [
            "main" if name == kind.main else "",
            "must be given" if field.is_required() else "",
            field.description or "",
            f"default {field.default}" if field.default not in (None, "", PydanticUndefined) else "",
        ]
        marks_text = ", ".join(filter(None, marks))
        yield f"`{key}`" + (f" ({marks_text})" if marks_text else "")
