"""A pydantic field's default and range in words, for the reference pages."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

_SIGNS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


def range_of(field: FieldInfo) -> str:
    """``≥ 0, ≤ 1``; ``a``, ``b``; on, off; empty for what has none."""
    if field.annotation is bool:
        return "on, off"
    options = _options(field.annotation)
    if options:
        return ", ".join(f"`{option}`" for option in options)
    limits = [limit for entry in (*field.metadata, field.annotation) for limit in _limits(entry)]
    return ", ".join(
        f"{sign} {getattr(limit, name):g}"
        for limit in limits
        for kind, (name, sign) in _SIGNS.items()
        if isinstance(limit, kind)
    )


def _options(annotation: Any) -> list[str]:
    """Of a ``Literal``, an optional one too."""
    if get_origin(annotation) is Literal:
        return [str(option) for option in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [option for part in get_args(annotation) for option in _options(part)]
    return []


def _limits(entry: Any) -> Iterator[Any]:
    """The bounds in a field's metadata, or in an annotation such as ``Annotated[...] | None``."""
    if isinstance(entry, tuple(_SIGNS)):
        yield entry
    elif isinstance(entry, FieldInfo):
        yield from entry.metadata
    elif get_origin(entry) is Annotated or get_origin(entry) in (Union, UnionType):
        parts = (*get_args(entry), *getattr(entry, "__metadata__", ()))
        yield from (limit for part in parts for limit in _limits(part))


def default_of(field: FieldInfo) -> str:
    """In backquotes; on or off for a truth value; empty for none."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        value = "on" if value else "off"
    return "" if value is None or value == "" or value in ({}, [], ()) else f"`{value}`"
