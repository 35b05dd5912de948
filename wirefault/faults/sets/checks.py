"""The parts of a fault set checked, each error with its place and what would do. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from wirefault.core.spelling import nearest
from wirefault.core.strict_yaml import short_repr
from wirefault.core.user_errors import InputError

_Model = TypeVar("_Model", bound=BaseModel)


class FaultSetError(InputError):
    """A fault set that cannot be used; the message says which file, which key and what would do."""


def checked_mapping(value: Any, where: str, keys: Sequence[str] | None) -> dict[str, Any]:
    """A mapping with no key but these (None: any); empty for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FaultSetError(f"{where}: must be a mapping, not {short_repr(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise FaultSetError(f"{where}: {key!r} is no key here{nearest(key, keys)}")
    return value


def list_or_empty(value: Any, where: str) -> list[Any]:
    """A list; empty for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FaultSetError(f"{where}: must be a list, not {short_repr(value)}")
    return value


def text_or(default: str, value: Any, where: str) -> str:
    """The value, a text that is not empty, or the default for None."""
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise FaultSetError(f"{where}: must be a text that is not empty, not {short_repr(value)}")
    return value


def required_name(given: Mapping[str, Any], key: str, valid: Iterable[str], where: str) -> str:
    """The name under an entry's key; ``valid`` are shown if there is none, and are not compared here."""
    if given.get(key) is None:
        raise FaultSetError(f"{where}: {key} is missing{nearest('', valid)}")
    return text_or("", given[key], f"{where}: {key}")


def checked_model(kind: type[_Model], value: Any, where: str) -> _Model:
    """The value as that model. Strict as for JSON: neither ``true`` nor ``"3"`` is a number."""
    given = _known_keys(kind, value, where)
    try:
        return kind.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        if reason.startswith("Input should"):
            reason += f", not {short_repr(first['input'])}"
        raise FaultSetError(f"{where}: {key[1:] + ': ' if key else ''}{reason}") from None


def _spellings(name: str, info: FieldInfo) -> list[str]:
    """The keys under which a field may stand, its old names among them."""
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _known_keys(kind: type[BaseModel], value: Any, where: str) -> dict[str, Any]:
    """The mapping, checked for unknown keys at every depth: pydantic would not name the nearest key."""
    fields = {
        key: info.annotation for name, info in kind.model_fields.items() for key in _spellings(name, info)
    }
    given = checked_mapping(value, where, tuple(fields))
    for key, annotation in fields.items():
        for inner in (annotation, *get_args(annotation)):
            held = given.get(key)
            for item in held if isinstance(held, list) else [held]:
                if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(item, dict):
                    _known_keys(inner, item, f"{where}: {key}")
    return given
