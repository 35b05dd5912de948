"""Faults of a JSON reply's structure and age: partial, schema_drift, stale."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import HTTP_ERRORS
from wirefault.core.identity import choose
from wirefault.dialects.http import Reply
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, evidence_of
from wirefault.faults.catalogue.http.body import JsonEdit, edit_json, objects_in, replace_reply


class Partial(Fault):
    """Remove a part of the JSON reply, which stays valid.

    ``list``: its longest list keeps only the first items, like the first of several pages. ``fields``: only
    some top-level fields are kept, drawn by chance. Default: ``list`` if a list has two or more items, else
    ``fields``. The upstream has executed the request. The reply looks normal to the client.
    """

    name = "partial"
    family = "http"
    mcp_view = "result"

    kind: Literal["list", "fields"] | None = Field(None, description="the part that is shortened")
    fraction: float = Field(0.5, ge=0, lt=1, description="share that is kept, rounded down")

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
    """The first of the longest lists, with its field's path; empty path for the document itself."""
    lists: list[tuple[str, list[Any]]] = [("", value)] if isinstance(value, list) else []
    for path, inner in objects_in(value):
        lists += [
            (".".join((*path, name)), items) for name, items in inner.items() if isinstance(items, list)
        ]
    return max(lists, key=lambda pair: len(pair[1]), default=("", []))


_Kind = Literal["rename", "drop", "retype", "wrap"]
_Path = tuple[str, ...]
_MAX_FIELDS = 2000


class SchemaDrift(Fault):
    """Change one field's name, type or nesting wherever it occurs in the JSON reply, as an upgrade might.

    ``rename`` (``max_temp`` becomes ``maxTemp``, ``title`` becomes ``title_value``), ``drop``, ``retype`` (a
    number as text, a text as a list of it, a list or object as its JSON text), ``wrap`` (``{"value": ...}``
    around it). Status and headers stay normal. The upstream has executed the request. Clients that do not
    validate a schema usually read the missing field as None.
    """

    name = "schema_drift"
    family = "http"
    mcp_view = "result"

    kind: _Kind = Field("rename", description="the change to the field")
    field: str | None = Field(
        None, min_length=1, description="the field, a.b for a nested one (inside lists too); default: drawn"
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
        """Evidence: the new value, or the object's new field names."""
        return list(holder)[:50] if self.kind in ("rename", "drop") else evidence_of(holder[name])


def _paths(value: Any) -> list[_Path]:
    """The path of every field, without repeats, in the reply's order."""
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


class Stale(Fault):
    """Return an earlier reply of the same link, like a cache that mixes up its entries.

    The upstream has executed the request. The client gets a reply from earlier in the episode, possibly to
    another request, and it looks normal. The fault is not injected if no earlier reply differs.
    """

    name = "stale"
    family = "http"
    mcp_view = "result"
    remembers = True
    can_cause = HTTP_ERRORS | {"bad_reply"}

    which: Literal["newest", "oldest"] = Field("newest", description="which of the differing replies")

    def act(self, tried: Try) -> Act | Miss:
        if not tried.earlier:
            return Miss("no_earlier_answer")
        return Act(reply=lambda reply: self._earlier(tried.earlier, reply))

    def _earlier(self, earlier: Sequence[Reply], reply: Reply) -> Changed | Miss:
        others = [other for other in earlier if (other.status, other.body) != (reply.status, reply.body)]
        if not others:
            return Miss("no_earlier_answer")
        chosen = others[-1] if self.which == "newest" else others[0]
        return replace_reply(reply, chosen, upstream_status=reply.status, status=chosen.status)
