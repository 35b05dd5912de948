"""partial: a part of a list, or of the fields."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from windtunnel.faults.base import Act, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import Edit, edited, kept, objects


class Partial(Fault):
    """The reply is valid JSON, but a part of it is missing.

    ``list``: only the first part of its longest list, as from a page that is taken for the whole.
    ``fields``: only some of its outermost fields, drawn. Without a kind: a list of two or more where there
    is one, else fields. The upstream has executed the request. A client sees a good answer.
    """

    name = "partial"
    family = "http"

    kind: Literal["list", "fields"] | None = Field(None, description="what becomes shorter")
    fraction: float = Field(0.5, ge=0, lt=1, description="share that is left, rounded down")

    def act(self, this: Try) -> Act:
        return Act(reply=lambda reply: edited(reply, lambda value: self._shortened(this, value)))

    def _shortened(self, this: Try, value: Any) -> Edit | Miss:
        name, found = _longest_list(value)
        if self.kind != "fields" and len(found) > 1:
            original = kept(list(found))
            del found[int(len(found) * self.fraction) :]
            return Edit(value, {"kind": "list", "field": name, "original": original, "changed": kept(found)})
        if self.kind != "list" and isinstance(value, dict) and value:
            left = self._fields(this, value)
            return Edit(left, {"kind": "fields", "original": kept(value), "changed": kept(left)})
        return Miss("nothing_to_change")

    def _fields(self, this: Try, value: dict[str, Any]) -> dict[str, Any]:
        drawn = sorted(value, key=lambda name: this.chance(f"field {name}"))
        left = set(drawn[: int(len(drawn) * self.fraction)])
        return {name: inner for name, inner in value.items() if name in left}


def _longest_list(value: Any) -> tuple[str, list[Any]]:
    """The first of the longest lists among the fields and at the top, with its name."""
    found: list[tuple[str, list[Any]]] = [("", value)] if isinstance(value, list) else []
    for path, inner in objects(value):
        found += [(".".join((*path, name)), one) for name, one in inner.items() if isinstance(one, list)]
    return max(found, key=lambda pair: len(pair[1]), default=("", []))
