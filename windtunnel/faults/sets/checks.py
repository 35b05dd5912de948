"""The parts of a fault set checked, each error with its place and what would do. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from windtunnel.core.spelling import nearest
from windtunnel.core.strict_yaml import FaultSetError, shown

_Model = TypeVar("_Model", bound=BaseModel)


def mapping(value: Any, where: str, keys: Sequence[str] | None) -> dict[str, Any]:
    """A mapping with no key but these (None: any); empty for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FaultSetError(f"{where}: must be a mapping, not {shown(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise FaultSetError(f"{where}: {key!r} is no key here{nearest(key, keys)}")
    return value


def listed(value: Any, where: str) -> list[Any]:
    """A list; empty for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FaultSetError(f"{where}: must be a list, not {shown(value)}")
    return value


def text(value: Any, default: str, where: str) -> str:
    """A text that is not empty; the default for None."""
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise FaultSetError(f"{where}: must be a text that is not empty, not {shown(value)}")
    return value


def named(given: Mapping[str, Any], key: str, valid: Iterable[str], where: str) -> str:
    """The name that an entry must have: of the valid ones, but that is looked up later."""
    if given.get(key) is None:
        raise FaultSetError(f"{where}: {key} is missing{nearest('', valid)}")
    return text(given[key], "", f"{where}: {key}")


def model(kind: type[_Model], value: Any, where: str) -> _Model:
    """Validated as JSON is: a list may be a tuple, but ``true`` is no number and ``"3"`` neither."""
    given = _of_model(kind, value, where)
    try:
        return kind.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        if reason.startswith("Input should"):
            reason += f", not {shown(first['input'])}"
        raise FaultSetError(f"{where}: {key[1:] + ': ' if key else ''}{reason}") from None


def _of_model(kind: type[BaseModel], value: Any, where: str) -> dict[str, Any]:
    """The mapping, with no unknown key at any depth: pydantic would name no other."""
    fields = {info.alias or name: info.annotation for name, info in kind.model_fields.items()}
    given = mapping(value, where, tuple(fields))
    for key, annotation in fields.items():
        for inner in (annotation, *get_args(annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(given.get(key), dict):
                _of_model(inner, given[key], f"{where}: {key}")
    return given
