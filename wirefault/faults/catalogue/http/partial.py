"""partial: a part of a list, or of the fields."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from wirefault.faults.base import Act, Fault, Miss, Try, evidence_of
from wirefault.faults.catalogue.http.edit import JsonEdit, edit_json, objects_in


class Partial(Fault):
    """The reply is valid JSON, but a part of it is missing.

    ``list``: only the first part of its longest list is there, like the first page of several. ``fields``:
    only some of its outermost fields are there, drawn by chance. Without a kind: a list of two or more
    items if there is one, else fields. The upstream has executed the request. A client sees a good answer.
    """

    name = "partial"
    family = "http"
    mcp_view = "result"

    kind: Literal["list", "fields"] | None = Field(None, description="what becomes shorter")
    fraction: float = Field(0.5, ge=0, lt=1, description="share that is left, rounded down")

    def act(self, tried: Try) -> Act:
        return Act(reply=lambda reply: edit_json(reply, lambda value: self._shortened(tried, value)))

    def _shortened(self, tried: Try, value: Any) -> JsonEdit | Miss:
        name, items = _longest_list(value)
        if self.kind != "fields" and len(items) > 1:
            evidence = {"kind": "list", "field": name, "original": evidence_of(list(items))}
            del items[int(len(items) * self.fraction) :]
            return JsonEdit(value, {**evidence, "changed": evidence_of(items)})
        if self.kind != "list" and isinstance(value, dict) and value:
            left = self._fields(tried, value)
            evidence = {"kind": "fields", "original": evidence_of(value)}
            return JsonEdit(left, {**evidence, "changed": evidence_of(left)})
        return Miss("nothing_to_change")

    def _fields(self, tried: Try, value: dict[str, Any]) -> dict[str, Any]:
        drawn = sorted(value, key=lambda name: tried.chance(f"field {name}"))
        left = set(drawn[: int(len(drawn) * self.fraction)])
        return {name: inner for name, inner in value.items() if name in left}


def _longest_list(value: Any) -> tuple[str, list[Any]]:
    """The first of the longest lists, with the path of its field; empty for the document itself."""
    lists: list[tuple[str, list[Any]]] = [("", value)] if isinstance(value, list) else []
    for path, inner in objects_in(value):
        lists += [
            (".".join((*path, name)), items) for name, items in inner.items() if isinstance(items, list)
        ]
    return max(lists, key=lambda pair: len(pair[1]), default=("", []))
