"""schema_drift: a field is renamed, gone, of another type, or one level deeper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from wirefault.core.draws import choose
from wirefault.faults.base import Act, Fault, Miss, Try, evidence_of
from wirefault.faults.catalogue.http.edit import JsonEdit, edit_json, objects_in

_Kind = Literal["rename", "drop", "retype", "wrap"]
_Path = tuple[str, ...]
_MAX_FIELDS = 2000


class SchemaDrift(Fault):
    """One field of the JSON reply is not as documented any more, everywhere that it occurs.

    ``rename`` (``max_temp`` becomes ``maxTemp``, ``title`` ``title_value``), ``drop``, ``retype`` (a number
    as text, a text as a list of it, a list or object as its JSON text), ``wrap`` (``{"value": ...}`` around
    it). As after an upgrade of the service: status and form are fine. The upstream has executed the
    request. What a client does depends on whether it checks a schema: most read a missing field as none.
    """

    name = "schema_drift"
    family = "http"
    mcp_view = "result"

    kind: _Kind = Field("rename", description="what becomes of the field")
    field: str | None = Field(
        None, min_length=1, description="which: a, or a.b for a nested one (lists are looked through)"
    )
    to: str | None = Field(None, min_length=1, description="the new name (rename)")

    def act(self, tried: Try) -> Act:
        return Act(reply=lambda reply: edit_json(reply, lambda value: self._drifted(tried, value)))

    def _drifted(self, tried: Try, value: Any) -> JsonEdit | Miss:
        field = self._choose(tried, _paths(value))
        if field is None:
            return Miss("nothing_to_change")
        *parent, name = field
        holders = [inner for path, inner in objects_in(value) if path == tuple(parent) and name in inner]
        before = evidence_of(holders[0][name])
        for holder in holders:
            self._change(holder, name)
        evidence = {"kind": self.kind, "field": ".".join(field), "occurrences": len(holders)}
        return JsonEdit(value, {**evidence, "original": before, "changed": self._after(holders[0], name)})

    def _choose(self, tried: Try, paths: list[_Path]) -> _Path | None:
        if self.field is not None:
            paths = [path for path in paths if ".".join(path) == self.field]
        return choose(tried.chance("field"), paths) if paths else None

    def _change(self, holder: dict[str, Any], name: str) -> None:
        if self.kind == "drop":
            del holder[name]
        elif self.kind == "rename":
            renamed = {self._renamed(holder, key) if key == name else key: holder[key] for key in holder}
            holder.clear()
            holder.update(renamed)
        else:
            holder[name] = {"value": holder[name]} if self.kind == "wrap" else _retyped(holder[name])

    def _renamed(self, holder: Iterable[str], name: str) -> str:
        new = self.to or _other_style(name)
        while new in holder:
            new += "_"
        return new

    def _after(self, holder: dict[str, Any], name: str) -> Any:
        """What the evidence shows: the new value, or the names that are there now."""
        return list(holder)[:50] if self.kind in ("rename", "drop") else evidence_of(holder[name])


def _paths(value: Any) -> list[_Path]:
    """Every field's path, each once, in the order of the reply."""
    paths: dict[_Path, None] = {}
    for path, inner in objects_in(value):
        paths.update(((*path, name), None) for name in inner)
        if len(paths) > _MAX_FIELDS:
            break
    return list(paths)


def _other_style(name: str) -> str:
    camel = re.sub(r"(?<=\w)_(\w)", lambda match: match[1].upper(), name)
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)
    return next((style for style in (camel, snake) if style != name), f"{name}_value")


def _retyped(value: Any) -> Any:
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return str(value)
    return "" if value is None else [value]
