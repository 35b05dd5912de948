"""Arguments and results of functions as JSON, and what a changed one becomes again."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

JSON_TYPE, TEXT_TYPE = "application/json", "text/plain; charset=utf-8"
OBJECT_TYPE = "application/vnd.wirefault.object"
"""Of a value that stays in the process: its body is the name of its class."""
MARK = "__wirefault_tool__"
_MAX_BYTES = 8 << 20
FRAMEWORKS = frozenset(
    (
        *("agents", "autogen_agentchat", "autogen_core", "crewai", "langchain", "langchain_core"),
        *("langgraph", "llama_index", "pydantic_ai", "smolagents", "strands"),
    )
)
_FIRST_NAMES = ("self", "cls")
_VARIOUS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def json_text(value: Any) -> str:
    """Return the value as JSON. Raises ``TypeError``, ``ValueError`` or ``RecursionError`` if it has none."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID, PurePath)):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


class Arguments:
    """The arguments of one call, by parameter."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._places: dict[str, tuple[Any, Any]] = {}
        self._json: dict[str, Any] = {}
        for name, place in _places(function, self._args, self._kwargs).items():
            with suppress(TypeError, ValueError, RecursionError):  # what is not JSON stays in the process
                self._json[name] = _json_value(place[1])
                self._places[name] = place
        self.body = json.dumps(self._json, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def from_body(self, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as ``body`` has them; unchanged ones keep their objects.

        Raises ``ValueError`` for a body that is not a JSON object.
        """
        if body == self.body:
            return self._args, self._kwargs
        changed = json.loads(body)
        if not isinstance(changed, dict):
            raise ValueError("the arguments are not a JSON object")
        args: list[Any] = list(self._args)
        kwargs = dict(self._kwargs)
        for name, (place, value) in self._places.items():
            if name not in changed:
                kwargs.pop(name, None)
            elif changed[name] != self._json[name]:
                new = restored(value, changed[name])
                if isinstance(place, int):
                    args[place] = new
                else:
                    kwargs[place] = new
        more = {name: value for name, value in changed.items() if name not in self._places}
        return tuple(args), {**kwargs, **more}


def _places(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return for each argument's name its index or keyword, and its value; an object itself is left out."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin
        parameters = []
    names: list[str] = [each.name for each in parameters if each.kind not in _VARIOUS]
    places: dict[str, tuple[Any, Any]] = {}
    for index, value in enumerate(args):
        name = names[index] if index < len(names) else f"argument_{index + 1}"
        if not (index == 0 and name in _FIRST_NAMES):
            places[name] = (index, value)
    places.update((name, (name, value)) for name, value in kwargs.items())
    return places


def _json_value(value: Any) -> Any:
    """Return the argument as JSON. Raises ``TypeError``, ``ValueError`` or ``RecursionError`` without any."""
    if type(value).__module__.partition(".")[0] in FRAMEWORKS:
        raise TypeError("a framework passes it, not the model")
    text = json_text(value)
    if len(text) > _MAX_BYTES:
        raise ValueError("too long")
    return json.loads(text)


def encoded(value: Any) -> tuple[str, bytes]:
    """Return content type and body of a result."""
    if isinstance(value, str):
        body = value.encode("utf-8", "surrogatepass")
        return (JSON_TYPE if _is_json(value) else TEXT_TYPE), body
    try:
        body = json_text(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        body = b""
    if not body or len(body) > _MAX_BYTES:
        return OBJECT_TYPE, type(value).__name__.encode()
    return JSON_TYPE, body


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list, as tools often return them."""
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def decoded(body: bytes, content_type: str, original: Any) -> Any:
    """Return a changed result in the form of the ``original``. Raises ``ValueError`` if it is not JSON."""
    if isinstance(original, str):
        return body.decode("utf-8", "replace")
    if content_type == OBJECT_TYPE:
        return original
    return restored(original, json.loads(body))


def restored(original: Any, changed: Any) -> Any:
    """Return a changed JSON value as the original's class, where that takes it."""
    kind = type(original)
    try:
        if hasattr(kind, "model_validate"):
            return kind.model_validate(changed)
        if dataclasses.is_dataclass(kind) and isinstance(changed, dict):
            return kind(**changed)
        if kind in (tuple, set, frozenset) and isinstance(changed, list):
            return kind(changed)
        if kind in (datetime, date, time) and isinstance(changed, str):
            return kind.fromisoformat(changed)
        if kind in (Decimal, UUID) or isinstance(original, (Enum, PurePath)):
            return kind(changed)
    except Exception:  # noqa: BLE001 - the class refuses the changed value: the function gets it as it is
        return changed
    return changed
